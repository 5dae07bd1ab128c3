"""Times and durations in ISO 8601 and in short forms (`90s`)."""

import re
import time
from datetime import UTC, datetime

from penstock.cli.terminal.output import WrongUsage

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

UNITS_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS}
_SHORT = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
# Days to seconds, as Java reads a duration; neither `P` nor `T` stands alone.
_ISO = re.compile(
    r"P(?=[\dT])(?:(\d{1,9})D)?"
    r"(?:T(?=\d)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?"
)

DURATION_HELP = "Such as PT15M, P1DT12H, 90s or 2h."


def parse_time(text: str) -> int:
    """Return milliseconds since 1970 of an ISO 8601 time, by default UTC; raise ValueError.

    The result is never negative: ListOffsets uses negative timestamps as special values.
    """
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0, round(when.timestamp() * SECOND_MS))


def parse_duration(text: str) -> int:
    """Return milliseconds of `PT15M`, `P1DT12H`, `90s` or `2h`; raise ValueError."""
    if (short := _SHORT.fullmatch(text)) is not None:
        return int(short[1]) * UNITS_MS[short[2]]
    if (iso := _ISO.fullmatch(text.upper())) is not None:
        days, hours, minutes = (int(part or 0) for part in iso.groups()[:3])
        seconds_ms = round(float(iso[4] or 0) * SECOND_MS)
        return days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS + seconds_ms
    raise ValueError(f"{text!r} is no duration")


def duration_of(option: str, text: str) -> int:
    """Return milliseconds of an option's text; raise CommandFailed."""
    try:
        return parse_duration(text)
    except ValueError:
        raise WrongUsage(
            f"{option} {text}: must be a duration such as PT15M, P1DT12H, 90s or 2h"
        ) from None


def time_text(timestamp_ms: int) -> str:
    """Return a time in UTC that parse_time reads; a number beyond all dates stays a number."""
    try:
        when = datetime.fromtimestamp(timestamp_ms / SECOND_MS, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration_text(duration_ms: int) -> str:
    """Return the two largest units that are not zero: `2h 5m`."""
    if duration_ms < SECOND_MS:
        return f"{max(duration_ms, 0)}ms"
    parts: list[str] = []
    rest = duration_ms
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def wall_ms() -> int:
    return round(time.time() * SECOND_MS)
