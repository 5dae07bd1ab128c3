"""What a record that failed carries in its headers: where it came from, how it was tried, and why.

The record's own headers stay before these; what an earlier failure has added is replaced.
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
    """The record does not come from a retry: its headers say nothing of one."""


@dataclass(frozen=True, slots=True)
class Trail:
    """Times are milliseconds since 1970."""

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
        """After one more attempt."""
        return replace(
            self,
            attempts=self.attempts + 1,
            due_ms=due_ms,
            first_failed_ms=now_ms if self.first_failed_ms is None else self.first_failed_ms,
            last_failed_ms=now_ms,
            cause=cause_of(error),
        )

    def behind(self, due_ms: int) -> "Trail":
        """It was not tried: one before it with its key has to be done first."""
        return replace(self, due_ms=due_ms)

    def headers(self, own: Headers) -> Headers:
        """The record's own, and this."""
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
    """Without what a retry has added."""
    return tuple(each for each in headers if not each[0].startswith(PREFIX))


def cause_of(error: BaseException) -> str:
    """The class and the text of an error, in a bounded number of characters."""
    text = type(error).__qualname__
    with suppress(Exception):  # others' errors may fail at saying what they are
        said = str(error)
        text = f"{text}: {said}" if said else text
    if len(text) > CAUSE_CHARACTERS_MAX:
        return f"{text[:CAUSE_CHARACTERS_MAX]}..."
    return text


def read_trail(headers: Iterable[tuple[str, bytes | None]]) -> Trail:
    """NoTrail if they have none, or one that cannot be read."""
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
