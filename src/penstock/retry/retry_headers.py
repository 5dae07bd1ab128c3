"""Headers of a failed record: its source, its attempts and the cause of the failure.

The record's own headers come first; headers of an earlier failure are replaced.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from penstock.client.records import Headers

PREFIX = "penstock-retry-"
CAUSE_CHARACTERS_MAX = 1_000
_TOPIC = PREFIX + "topic"
_PARTITION = PREFIX + "partition"
_OFFSET = PREFIX + "offset"
_TIMESTAMP = PREFIX + "timestamp"
_GROUP = PREFIX + "group"
_ATTEMPTS = PREFIX + "attempts"
_DUE = PREFIX + "due"
_FIRST = PREFIX + "first-failed"
_LAST = PREFIX + "last-failed"
_CAUSE = PREFIX + "cause"


class NoTrail(ValueError):
    """The record has no retry headers, or headers that cannot be read."""


@dataclass(frozen=True, slots=True)
class Trail:
    """The retry headers of a record; times are milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None  # of the record as it was first sent
    group: str
    attempts: int = 0  # that have failed
    due_ms: int | None = None  # None in a topic of the dead
    first_failed_ms: int | None = None
    last_failed_ms: int | None = None
    cause: str = ""

    def failed(self, error: BaseException, now_ms: int, due_ms: int | None) -> "Trail":
        """Return the trail after one more failed attempt."""
        return replace(
            self,
            attempts=self.attempts + 1,
            due_ms=due_ms,
            first_failed_ms=now_ms if self.first_failed_ms is None else self.first_failed_ms,
            last_failed_ms=now_ms,
            cause=cause_of(error),
        )

    def behind(self, due_ms: int) -> "Trail":
        """Return the trail of a record that waits, untried, behind another of its key."""
        return replace(self, due_ms=due_ms)

    def headers(self, own: Headers) -> Headers:
        """Return the record's own headers with the retry headers behind."""
        said: list[tuple[str, str | int | None]] = [
            (_TOPIC, self.topic),
            (_PARTITION, self.partition),
            (_OFFSET, self.offset),
            (_TIMESTAMP, self.timestamp_ms),
            (_GROUP, self.group),
            (_ATTEMPTS, self.attempts),
            (_DUE, self.due_ms),
            (_FIRST, self.first_failed_ms),
            (_LAST, self.last_failed_ms),
            (_CAUSE, self.cause or None),
        ]
        ours = [
            # An error's text may hold what UTF-8 cannot.
            (name, str(value).encode(errors="backslashreplace"))
            for name, value in said
            if value is not None
        ]
        return (*own_headers(own), *ours)


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """Return the headers without retry headers."""
    return tuple(each for each in headers if not each[0].startswith(PREFIX))


def cause_of(error: BaseException) -> str:
    """Return the class and the text of an error, cut at CAUSE_CHARACTERS_MAX."""
    text = type(error).__qualname__
    with suppress(Exception):  # __str__ of a user's error may raise
        said = str(error)
        text = f"{text}: {said}" if said else text
    if len(text) > CAUSE_CHARACTERS_MAX:
        return f"{text[:CAUSE_CHARACTERS_MAX]}..."
    return text


def read_trail(headers: Iterable[tuple[str, bytes | None]]) -> Trail:
    """Return the trail in the headers; raise NoTrail if it is missing or malformed."""
    found = {
        name: value for name, value in headers if name.startswith(PREFIX) and value is not None
    }
    try:
        return Trail(
            topic=found[_TOPIC].decode(),
            partition=int(found[_PARTITION]),
            offset=int(found[_OFFSET]),
            timestamp_ms=_number(found.get(_TIMESTAMP)),
            group=found[_GROUP].decode(),
            attempts=int(found[_ATTEMPTS]),
            due_ms=_number(found.get(_DUE)),
            first_failed_ms=_number(found.get(_FIRST)),
            last_failed_ms=_number(found.get(_LAST)),
            cause=found.get(_CAUSE, b"").decode(errors="replace"),
        )
    except KeyError as missing:
        raise NoTrail(f"the header {missing.args[0]} is missing") from None
    except ValueError as wrong:
        raise NoTrail(f"its retry headers cannot be read: {wrong}") from None


def _number(data: bytes | None) -> int | None:
    return None if data is None else int(data)
