"""One coordinator on the real runtime, for peers that send anything the wire allows.

The log keeps Kafka's own bytes, so a restart reads what a directory would hold. Time is a number;
timers fire in their order. Every question is answered once, or is still waiting.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

from penstock.coordinator.batches import decode, encode
from penstock.coordinator.records import EndMarker
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
)
from penstock.machine.protocols import LogFollower, LogUnreadable
from penstock.machine.runtime import Runtime
from penstock.wire.batch import HEADER, Record, build_batch
from penstock.wire.records.coordinator import Family

BEGINNING_MS = 1_700_000_000_000


class HostileTimer:
    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class HostileTime:
    """Clock and timers."""

    def __init__(self) -> None:
        self.now_ms = BEGINNING_MS
        self._due: list[tuple[float, int, HostileTimer]] = []
        self._order = count()

    def wall_ms(self) -> int:
        return self.now_ms

    def mono_ms(self) -> float:
        return float(self.now_ms)

    def at(self, mono_ms: float, call: Callable[[], None]) -> HostileTimer:
        timer = HostileTimer(call)
        heappush(self._due, (mono_ms, next(self._order), timer))
        return timer

    def soon(self, call: Callable[[], None]) -> None:
        self.at(self.now_ms, call)

    def after_turn(self, call: Callable[[], None]) -> None:
        self.soon(call)

    def advance(self, milliseconds: int) -> None:
        until = self.now_ms + milliseconds
        while self._due and self._due[0][0] <= until:
            due_ms, _, timer = heappop(self._due)
            self.now_ms = max(self.now_ms, int(due_ms))
            if timer.call is not None:
                timer.call()
        self.now_ms = until


class KeptBatch(NamedTuple):
    records: Sequence[Any]
    end_offset: int
    epoch: int = 0
    timestamp_ms: int = 0


class KeptLog:
    """Commits at once; refuses everything while `refuses`."""

    def __init__(self, family: Family, time: HostileTime) -> None:
        self.refuses = False
        self._family = family
        self._time = time
        self._kept: list[bytes | EndMarker] = []

    @property
    def end_offset(self) -> int:
        return len(self._kept)

    @property
    def committed_offset(self) -> int:
        return len(self._kept)

    def append(self, records: Sequence[Any]) -> KeptBatch:
        if self.refuses:
            raise KafkaStorageError("the disk is full")
        marker = isinstance(records[0], EndMarker)
        self._kept.append(records[0] if marker else encode(records, self._time.now_ms))
        return KeptBatch(records, self.end_offset)

    def append_raw(self, key: bytes, value: bytes | None, transactional: bool = False) -> None:
        """Write one record as it is, whether or not a coordinator can read it."""
        record = Record(0, 0, key, value)
        self._kept.append(build_batch([record], transactional=transactional, producer_id=7))

    def read(self) -> "KeptReader":
        batches = [
            [kept]
            if isinstance(kept, EndMarker)
            else decode(self._family, kept, HEADER.unpack_from(kept))
            for kept in self._kept
        ]
        return KeptReader([KeptBatch(each, at) for at, each in enumerate(batches, 1)])

    def follow(self, follower: LogFollower) -> None: ...


class KeptReader:
    def __init__(self, batches: list[KeptBatch]) -> None:
        self._slices = [batches] if batches else []

    def next_slice(self) -> Sequence[KeptBatch]:
        return self._slices.pop() if self._slices else ()


class HostileWorld:
    """`make` makes the machine; `send` performs what it sends."""

    def __init__(
        self,
        seed: int,
        make: Callable[[], Any],
        family: Family,
        send: Callable[[Any], None] | None = None,
    ) -> None:
        self.chance = Random(seed)
        self.time = HostileTime()
        self.log = KeptLog(family, self.time)
        self.trace: list[str] = []
        self.open = 0  # questions without an answer
        self.runtime: Runtime[Any] = Runtime(
            make,
            self.log,
            self.time,
            self.time,
            while_loading=CoordinatorLoadInProgress,
            when_lost=NotCoordinator,
            when_full=CoordinatorNotAvailable,
            send=send,
            unreadable=_unreadable,
        )
        self.runtime.gained_now()

    def ask(self, event: Any, heard: Callable[[Any], None] = lambda _: None) -> None:
        self.open += 1
        answers = count(1)

        def done(answer: Any) -> None:
            assert next(answers) == 1, "a question is answered once"
            self.open -= 1
            self.trace.append(f"  answer {answer!r}")
            heard(answer)

        self.trace.append(repr(event))
        self.runtime.submit(event, done)

    def restart(self) -> None:
        self.trace.append("restart")
        self.runtime.lost()
        assert self.open == 0, "with the machine go all who wait"
        self.runtime.gained()
        self.time.advance(0)


def _unreadable(problem: LogUnreadable) -> None:
    raise AssertionError(f"a log that this coordinator wrote: {problem}")
