"""The asyncio face of Admin is what the generator makes of the blocking one."""

import inspect
from pathlib import Path

import pytest

from penstock.client.admin import aio_parts, blocking
from tools.faces import PARTS, generate


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("path", "text"), generate().items(), ids=["Admin", "parts"])
def test_the_committed_face_is_fresh(path: Path, text: str) -> None:
    assert path.read_text() == text, "`make faces` writes it again"


@pytest.mark.parametrize(("attribute", "module", "name"), PARTS, ids=lambda each: each)
def test_both_faces_of_a_part_have_the_same_methods(attribute: str, module: str, name: str) -> None:
    admin = blocking.Admin(bootstrap="127.0.0.1:1")
    part = getattr(admin, attribute)
    assert type(part).__module__ == f"penstock.client.admin.{module}"
    assert public(type(part)) - {"limit"} == public(getattr(aio_parts, name))
