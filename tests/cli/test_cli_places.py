"""Places in a log as people say them."""

import pytest

from penstock.cli.arguments.places import LogPlace, PlaceKind, parse_place
from penstock.cli.terminal.output import CommandFailed, ExitCode


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", LogPlace(PlaceKind.START)),
        ("beginning", LogPlace(PlaceKind.START)),
        ("earliest", LogPlace(PlaceKind.START)),
        ("end", LogPlace(PlaceKind.END)),
        ("latest", LogPlace(PlaceKind.END)),
        ("0", LogPlace(PlaceKind.OFFSET, 0)),
        ("9223372036854775807", LogPlace(PlaceKind.OFFSET, 2**63 - 1)),
        ("-10", LogPlace(PlaceKind.BEFORE_END, 10)),
        ("+5", LogPlace(PlaceKind.AFTER_START, 5)),
        ("@1767225600000", LogPlace(PlaceKind.TIME, 1_767_225_600_000)),
        ("@2026-01-01T00:00", LogPlace(PlaceKind.TIME, 1_767_225_600_000)),
        ("2026-01-01", LogPlace(PlaceKind.TIME, 1_767_225_600_000)),
        ("@2026-01-01T01:00+01:00", LogPlace(PlaceKind.TIME, 1_767_225_600_000)),
    ],
)
def test_every_way_to_say_a_place_is_understood(text: str, place: LogPlace) -> None:
    assert parse_place(text, "--from") == place


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-", "+", "@", "-x", "1.5", "9223372036854775808", "@9223372036854775808"],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="--from") as rejected:
        parse_place(text, "--from")
    assert rejected.value.code is ExitCode.USAGE
