"""A clock, timers and a log for the runtime, moved by hand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.effects import Failure, Outcome
from penstock.machine.protocols import LogFollower, LogUnreadable
from penstock.wire.primitives import UnencodableValue


class Unfailing:
    """The part of a machine that its own exceptions would need."""

    def recover(self, event: Any, problem: Exception, now_ms: int) -> Outcome:  # noqa: ARG002
        raise problem

    def set_aside(self, record: Any, problem: Exception) -> Failure:  # noqa: ARG002
        raise problem


class FakeTime:
    """Clock and timers in one; time stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waiting: list[tuple[float, int, Callable[[], None]]] = []
        self.next: list[Callable[[], None]] = []
        self._count = 0

    def wall_ms(self) -> int:
        return int(self.now) + 1_000_000

    def mono_ms(self) -> float:
        return self.now

    def at(self, mono_ms: float, call: Callable[[], None]) -> "FakeTimer":
        self._count += 1
        entry = (mono_ms, self._count, call)
        self.waiting.append(entry)
        return FakeTimer(self, entry)

    def soon(self, call: Callable[[], None]) -> None:
        self.next.append(call)

    def after_turn(self, call: Callable[[], None]) -> None:
        self.next.append(call)

    def turn(self) -> None:
        calls, self.next = self.next, []
        for call in calls:
            call()

    def advance(self, milliseconds: float) -> None:
        self.now += milliseconds
        for entry in sorted(self.waiting, key=lambda each: each[:2]):
            if entry[0] <= self.now and entry in self.waiting:
                self.waiting.remove(entry)
                entry[2]()


@dataclass
class FakeTimer:
    time: FakeTime
    entry: tuple[float, int, Callable[[], None]]

    def cancel(self) -> None:
        if self.entry in self.time.waiting:
            self.time.waiting.remove(self.entry)


@dataclass(frozen=True)
class FakeBatch:
    records: Sequence[Any]
    end_offset: int
    epoch: int = 0
    timestamp_ms: int = 0


class FakeReader:
    def __init__(
        self, batches: list[FakeBatch], per_slice: int, unreadable: LogUnreadable | None
    ) -> None:
        self.batches = list(batches)
        self.per_slice = per_slice
        self.unreadable = unreadable

    def next_slice(self) -> list[FakeBatch]:
        if self.unreadable is not None:
            raise self.unreadable
        found, self.batches = self.batches[: self.per_slice], self.batches[self.per_slice :]
        return found


@dataclass
class FakeLog:
    """Commits when told to; on losing leadership what is not committed may go."""

    batches: list[FakeBatch] = field(default_factory=list)
    committed_offset: int = 0
    follower: LogFollower | None = None
    refuse: BaseException | None = None
    unreadable: LogUnreadable | None = None
    per_slice: int = 3

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def append(self, records: Sequence[Any]) -> FakeBatch:
        if self.refuse is not None:
            refuse, self.refuse = self.refuse, None
            raise refuse
        batch = FakeBatch(tuple(records), self.end_offset + len(records))
        self.batches.append(batch)
        return batch

    def begin(self) -> "FakeWriting":
        return FakeWriting(self)

    def read(self) -> FakeReader:
        return FakeReader(self.batches, self.per_slice, self.unreadable)

    def follow(self, follower: LogFollower) -> None:
        self.follower = follower

    def commit(self, offset: int) -> None:
        assert self.follower is not None
        self.committed_offset = max(self.committed_offset, min(offset, self.end_offset))
        self.follower.committed(self.committed_offset)

    def lose(self, keep: int) -> None:
        """Another leads now; it keeps `keep` of the batches that were not committed."""
        assert self.follower is not None
        safe = [batch for batch in self.batches if batch.end_offset <= self.committed_offset]
        self.batches = self.batches[: len(safe) + keep]
        self.follower.lost()


class FakeWriting:
    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.pieces: list[Sequence[Any]] = []

    def add(self, records: Sequence[Any]) -> None:
        if any(record == "unwritable" for record in records):
            raise UnencodableValue("it has no place")
        self.pieces.append(records)

    def finish(self) -> FakeBatch:
        return self.log.append([record for piece in self.pieces for record in piece])
