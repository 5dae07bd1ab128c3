"""Durations as Java writes them (ISO 8601: PT1H30M, P2D, PT0.5S), in milliseconds."""

import re

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000}


def duration_ms(text: str) -> int:
    """Return milliseconds. Raise ValueError for other text or a negative duration."""
    found = _DURATION.fullmatch(text.strip())
    parts = found.groupdict() if found else {}
    named = [parts.get(each) for each in (*_MS, "seconds")]
    if found is None or not any(named) or (parts["time"] or "x").upper() == "T":
        raise ValueError(f"{text!r} is no duration; it looks like PT1H, P2D or PT30M")
    total = sum(int(parts[unit]) * factor for unit, factor in _MS.items() if parts[unit])
    if parts["seconds"]:
        total += round(float(parts["seconds"].replace(",", ".")) * 1000)
    total = -total if parts["sign"] == "-" else total
    if total < 0:
        raise ValueError(f"{text!r} is below 0")
    return total
