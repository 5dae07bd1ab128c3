"""docs/guides/streams.md is executed, from its first block to its last."""

import re
from pathlib import Path

import pytest

import penstock.streams
from penstock.streams.loading_mark import loading

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "streams.md"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)

pytestmark = pytest.mark.xdist_group("spark")


def test_the_guide_runs_as_it_stands(tmp_path: Path) -> None:
    """`app.run()` at the end of the first block needs a broker: here it only describes."""
    code = "\n".join(BLOCK.findall(GUIDE.read_text()))
    script = tmp_path / "guide.py"
    script.write_text(code)
    names: dict[str, object] = {"__name__": "guide"}
    with loading():
        exec(compile(code, str(script), "exec"), names)
    assert "revenue-per-minute" in names["app"].describe()  # type: ignore[attr-defined]


def test_the_guide_names_every_policy_and_serde() -> None:
    text = GUIDE.read_text()
    for name in ("dead_letter", "skip", "fail"):
        assert f"`{name}`" in text
    serdes = ("bytes_", "string", "short", "integer", "long", "float_", "double")
    assert all(f"`{name}()`" in text for name in serdes)
    assert all(hasattr(penstock.streams, name) for name in serdes)
