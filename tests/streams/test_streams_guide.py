"""docs/guides/streams.md names what there is; tests/guides runs its boxes."""

from pathlib import Path

import penstock.streams

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "streams.md"


def test_the_guide_names_every_policy_and_serde() -> None:
    text = GUIDE.read_text()
    for name in ("dead_letter", "skip", "fail"):
        assert f"`{name}`" in text
    serdes = ("bytes_", "string", "short", "integer", "long", "float_", "double")
    assert all(f"`{name}()`" in text for name in serdes)
    assert all(hasattr(penstock.streams, name) for name in serdes)
