"""The table of permissions is whole, and its page is up to date."""

from pathlib import Path

from penstock.broker.handlers import HANDLERS
from penstock.security.permissions import DENIALS, PERMISSIONS
from tools.permissions_reference import reference

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "permissions.md"


def test_every_served_api_has_a_line() -> None:
    assert HANDLERS.keys() <= PERMISSIONS.keys()


def test_every_need_has_an_error() -> None:
    assert {need.kind for line in PERMISSIONS.values() for need in line.parts} <= DENIALS.keys()


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run python -m tools.permissions_reference"
