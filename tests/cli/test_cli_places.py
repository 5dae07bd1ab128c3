"""Places in a log as people say them."""

import pytest

from penstock.cli.output import CommandFailed, ExitCode
from penstock.cli.places import Kind, Place, parse_place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", Place(Kind.START)),
        ("beginning", Place(Kind.START)),
        ("earliest", Place(Kind.START)),
        ("end", Place(Kind.END)),
        ("latest", Place(Kind.END)),
        ("0", Place(Kind.OFFSET, 0)),
        ("9223372036854775807", Place(Kind.OFFSET, 2**63 - 1)),
        ("-10", Place(Kind.BEFORE_END, 10)),
        ("+5", Place(Kind.AFTER_START, 5)),
        ("@1767225600000", Place(Kind.TIME, 1_767_225_600_000)),
        ("@2026-01-01T00:00", Place(Kind.TIME, 1_767_225_600_000)),
        ("2026-01-01", Place(Kind.TIME, 1_767_225_600_000)),
        ("@2026-01-01T01:00+01:00", Place(Kind.TIME, 1_767_225_600_000)),
    ],
)
def test_every_way_to_say_a_place_is_understood(text: str, place: Place) -> None:
    assert parse_place(text, "--from") == place


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-", "+", "@", "-x", "1.5", "9223372036854775808", "@9223372036854775808"],
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(CommandFailed, match="--from") as refused:
        parse_place(text, "--from")
    assert refused.value.code is ExitCode.USAGE
