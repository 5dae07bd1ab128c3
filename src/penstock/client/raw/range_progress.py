"""The progress of one range of offsets, and its limits without progress.

Times are seconds of the monotonic clock; limits are milliseconds, as in Kafka's configuration.
"""

import time
from dataclasses import dataclass
from typing import NoReturn

from penstock.client.raw.leaders import KnownLeader
from penstock.client.raw.outcomes import ReadGaveUp, ReadTimedOut
from penstock.model import TopicPartition

PAUSE_MS_MIN = 50
PAUSE_MS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from `start` up to but not including `end`."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of a reader. Each counts from the last progress of a range."""

    timeout_ms: int = 120_000  # without progress, for any reason
    retries_max: int = 60  # failed attempts in a row
    lost_after_ms: int = 10_000  # records beyond the log end: a new leader may be behind
    missing_after_ms: int = 5_000  # a topic that no server knows: its metadata may be on the way


class RangeProgress:
    """The progress of one range."""

    def __init__(self, asked: OffsetRange, now: float, patience: Patience) -> None:
        self.partition = asked.partition
        self.position = asked.start
        self.end = asked.end
        self.leader: KnownLeader | None = None
        self.flying = False
        self.rests_until = 0.0
        self.out_of_range = False
        self._patience = patience
        self._failures = 0
        self._moved_at = now
        self._short_since: float | None = None
        self._missing_since: float | None = None

    @property
    def done(self) -> bool:
        return self.position >= self.end

    def moved(self, position: int) -> None:
        assert position > self.position, "a range is read forward"
        self.position = position
        self._moved_at = time.monotonic()
        self._failures = 0
        self._short_since = self._missing_since = None
        self.out_of_range = False

    def waited(self, reason: str) -> None:
        """Note an empty response without an error."""
        now = time.monotonic()
        waited_ms = int((now - self._moved_at) * 1000)
        if waited_ms > self._patience.timeout_ms:
            raise ReadTimedOut(self.partition, self.position, self.end, waited_ms, reason)

    def stumbled(self, reason: str) -> None:
        """Note a failed attempt: look for the leader again, after a growing pause."""
        self._failures += 1
        self.leader = None
        if self._failures > self._patience.retries_max:
            self.gave_up(reason)
        self.waited(reason)
        pause_ms = min(PAUSE_MS_MAX, PAUSE_MS_MIN << min(self._failures - 1, 10))
        self.rests_until = time.monotonic() + pause_ms / 1000

    def gave_up(self, reason: str) -> NoReturn:
        attempts = max(1, self._failures)
        raise ReadGaveUp(self.partition, self.position, self.end, attempts, reason)

    def fell_short(self) -> bool:
        """Note missing records. Return whether the wait for them has been long enough."""
        now = time.monotonic()
        if self._short_since is None:
            self._short_since = now
        return (now - self._short_since) * 1000 >= self._patience.lost_after_ms

    def stayed_missing(self) -> bool:
        """Note an unknown topic. Return whether it has been unknown for long enough."""
        now = time.monotonic()
        if self._missing_since is None:
            self._missing_since = now
        return (now - self._missing_since) * 1000 >= self._patience.missing_after_ms
