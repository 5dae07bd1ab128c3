"""Times and durations as they are typed and shown."""

import pytest

from penstock.cli.arguments.times import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    duration_of,
    duration_text,
    parse_duration,
    parse_time,
    time_text,
)
from penstock.cli.terminal.output import CommandFailed, ExitCode


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT15M", 15 * MINUTE_MS),
        ("P1D", DAY_MS),
        ("P2DT3H", 2 * DAY_MS + 3 * HOUR_MS),
        ("PT1H30M5S", 90 * MINUTE_MS + 5000),
        ("PT0.25S", 250),
        ("pt10s", 10_000),
        ("250ms", 250),
        ("90s", 90_000),
        ("15m", 15 * MINUTE_MS),
        ("2h", 2 * HOUR_MS),
        ("1d", DAY_MS),
        ("0s", 0),
    ],
)
def test_a_duration_is_iso_or_short(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "1", "15", "5x", "-5s", "-PT5S", "PT-5S", "P1M", "P1Y", "1h30m",
     "9999999999d", "PT5", "P5S"],
)  # fmt: skip
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


def test_a_duration_that_an_option_cannot_use_names_the_option() -> None:
    with pytest.raises(CommandFailed, match="--by-duration soon: must be a duration") as failed:
        duration_of("--by-duration", "soon")
    assert failed.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:00.123Z", 123),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", DAY_MS),
        ("2026-01-31T12:00:00", 1_769_860_800_000),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, timestamp_ms: int) -> None:
    assert parse_time(text) == timestamp_ms


def test_a_time_before_1970_is_no_place_in_a_log() -> None:
    """-1 would be the end of a log, -2 its beginning."""
    assert parse_time("1969-12-31T23:59:59.999Z") == 0


def test_a_time_is_shown_as_it_is_typed() -> None:
    assert time_text(1_769_860_800_123) == "2026-01-31T12:00:00.123Z"


def test_a_timestamp_that_is_no_time_is_shown_as_a_number() -> None:
    assert time_text(2**62) == str(2**62)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (-5, "0ms"),
        (999, "999ms"),
        (1000, "1s"),
        (61_000, "1m 1s"),
        (DAY_MS + 5, "1d"),
        (DAY_MS + HOUR_MS + MINUTE_MS, "1d 1h"),
    ],
)
def test_a_duration_is_shown_by_its_two_largest_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
