"""The table of permissions is whole."""

from penstock.broker.handlers import HANDLERS
from penstock.security.permissions import DENIALS, PERMISSIONS


def test_every_served_api_has_a_line() -> None:
    assert HANDLERS.keys() <= PERMISSIONS.keys()


def test_every_need_has_an_error() -> None:
    assert {need.kind for line in PERMISSIONS.values() for need in line.parts} <= DENIALS.keys()
