"""The public module of serializers and its guide, whose boxes are run as printed."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from fake_registry import FakeRegistry

import penstock.client.serde
import penstock.serde
from penstock.testing import Cluster

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serializers.md"
BOX = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", penstock.client.serde.__all__)
def test_every_public_name_of_the_serdes_is_in_the_public_module(name: str) -> None:
    assert getattr(penstock.serde, name) is getattr(penstock.client.serde, name)
    assert name in penstock.serde.__all__


def test_the_guide_to_serializers() -> None:
    registry = FakeRegistry()
    names: dict[str, object] = {"__name__": "guide"}
    printed = io.StringIO()
    text = GUIDE.read_text()
    try:
        with Cluster() as cluster, contextlib.redirect_stdout(printed):
            for box in BOX.finditer(text):
                code = box[1].replace("127.0.0.1:9092", cluster.bootstrap)
                code = code.replace("http://127.0.0.1:8081", registry.url)
                line = text.count("\n", 0, box.start()) + 1
                exec(compile("\n" * line + code, GUIDE.name, "exec"), names)
    finally:
        registry.close()
    said = printed.getvalue()
    assert "ann {'customer': 'ann', 'cents': 1250}" in said
    assert "refused: " in said
    assert "b'\\x06ann\\x02'" in said
    assert sorted(registry.subjects) == ["payments-value", "refunds-value"]
