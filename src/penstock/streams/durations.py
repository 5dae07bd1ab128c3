"""Durations as text: "30 seconds", "1 minute", "500ms"."""

import datetime
import re

from penstock.streams.errors import TopologyError

UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_PART = re.compile(r"\s*(\d+)\s*([a-z]+)")


def duration_ms(text: str | int, what: str, at_least: int = 1) -> int:
    """Return milliseconds; a bare number is milliseconds already. `what` is for the message."""
    total = text if isinstance(text, int) else _parse(text, what)
    if total < at_least:
        raise TopologyError(f"{what} is {text!r}: it must be at least {duration_text(at_least)}")
    return total


def advance_of(by: str) -> datetime.timedelta:
    """Return how far a test driver moves its clock; a number lacks its unit."""
    if not isinstance(by, str):
        raise TypeError(f'name the unit: advance("{by} seconds"), or minutes, days')
    return datetime.timedelta(milliseconds=duration_ms(by, "advance"))


def _parse(text: str, what: str) -> int:
    rest, total = text.strip().lower(), 0
    while rest:
        part = _PART.match(rest)
        unit = "" if part is None else part[2]
        factor = UNITS_MS.get(unit) or UNITS_MS.get(unit.removesuffix("s"))
        if part is None or factor is None:
            raise TopologyError(f'{what} is {text!r}: it takes a length such as "30 seconds"')
        total += int(part[1]) * factor
        rest = rest[part.end() :].strip()
    return total


def duration_text(length_ms: int) -> str:
    """Return the largest unit that fits: `90 seconds`, `1 minute`."""
    for unit in ("day", "hour", "minute", "second"):
        count, left = divmod(length_ms, UNITS_MS[unit])
        if count and not left:
            return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
    return f"{length_ms} milliseconds"
