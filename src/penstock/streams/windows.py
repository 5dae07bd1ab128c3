"""Windows of event time. Kafka's sliding windows are not offered, and raise."""

from dataclasses import dataclass
from typing import NoReturn

from penstock.streams.durations import duration_ms, duration_text
from penstock.streams.errors import NotOffered, TopologyError


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of one size, one beginning at every `advance`; tumbling when the two are equal."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    def __str__(self) -> str:
        if self.advance_ms == self.size_ms:
            return f"tumbling {duration_text(self.size_ms)}"
        return f"hopping {duration_text(self.size_ms)} every {duration_text(self.advance_ms)}"


@dataclass(frozen=True, slots=True)
class Session:
    """A window that lasts as long as no gap between records is longer than `gap`."""

    gap_ms: int
    grace_ms: int

    def __str__(self) -> str:
        return f"session, gap {duration_text(self.gap_ms)}"


Window = Hopping | Session


def tumbling(size: str | int, *, grace: str | int = 0) -> Hopping:
    """Return consecutive windows. `grace` is how late a record may come."""
    size_ms = duration_ms(size, "the size of a window")
    return Hopping(size_ms, size_ms, duration_ms(grace, "grace", 0))


def hopping(size: str | int, *, advance: str | int, grace: str | int = 0) -> Hopping:
    """Return overlapping windows: each of `size`, one beginning at every `advance`."""
    size_ms = duration_ms(size, "the size of a window")
    advance_ms = duration_ms(advance, "the advance of a window")
    if advance_ms > size_ms:
        raise TopologyError(
            "a hopping window advances by at most its size, or records fall between"
        )
    return Hopping(size_ms, advance_ms, duration_ms(grace, "grace", 0))


def session(gap: str | int, *, grace: str | int = 0) -> Session:
    """Return a window per burst of activity, which ends after `gap` without a record of that
    key."""
    return Session(duration_ms(gap, "the gap of a session"), duration_ms(grace, "grace", 0))


def sliding(*size: str | int, **grace: str | int) -> NoReturn:  # noqa: ARG001
    """Raise NotOffered: Kafka has a window for every pair of records; Spark has no such window."""
    raise NotOffered(
        "sliding windows are not offered: Spark has no window per record. hopping(size, "
        "advance=...) with a small advance comes close; process() with a timer can do it exactly"
    )
