"""The runtime: replies wait for commits, order is kept, a lost machine is rebuilt from the log."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.effects import Outcome, SetTimer
from penstock.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    ThrottlingQuotaExceeded,
)
from penstock.machine.protocols import LogFollower
from penstock.machine.runtime import Runtime, State
from penstock.world import DiskFailed


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
    def __init__(self, batches: list[FakeBatch], per_slice: int) -> None:
        self.batches = list(batches)
        self.per_slice = per_slice

    def next_slice(self) -> list[FakeBatch]:
        found, self.batches = self.batches[: self.per_slice], self.batches[self.per_slice :]
        return found


@dataclass
class FakeLog:
    """Commits when told to; on losing leadership what is not committed may go."""

    batches: list[FakeBatch] = field(default_factory=list)
    committed_offset: int = 0
    follower: LogFollower | None = None
    refuse: BaseException | None = None
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

    def read(self) -> FakeReader:
        return FakeReader(self.batches, self.per_slice)

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


class Counter:
    """Adds numbers up; 'read' tells the sum, 'bad' is refused, 'later' sets a timer."""

    def __init__(self) -> None:
        self.total = 0
        self.loaded_with: int | None = None

    def handle(self, event: Any, now_ms: int) -> Outcome:  # noqa: ARG002
        if event == "read":
            return Outcome(reply=("total", self.total))
        if event == "bad":
            raise InvalidRequest(f"bad at {self.total}")
        if event == "later":
            return Outcome(reply="set", timers=[SetTimer("t", 50, 100)])
        total = self.total + sum(event) if isinstance(event, tuple) else self.total + event
        records = list(event) if isinstance(event, tuple) else [event]
        return Outcome(records, ("added", total))

    def replay(self, record: Any) -> None:
        self.total += record

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None: ...

    def loaded(self, now_ms: int) -> Outcome:  # noqa: ARG002
        self.loaded_with = self.total
        return Outcome()


def make(log: FakeLog, time: FakeTime, parked_max: int = 100) -> tuple[Runtime[Counter], list[Any]]:
    runtime: Runtime[Counter] = Runtime(
        Counter,
        log,
        time,
        time,
        while_loading=CoordinatorLoadInProgress,
        when_lost=NotCoordinator,
        when_full=ThrottlingQuotaExceeded,
        parked_max=parked_max,
    )
    return runtime, []


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


def test_a_reply_leaves_only_when_its_records_are_committed(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit(5, replies.append)
    assert replies == []
    log.commit(1)
    assert replies == [("added", 5)]


def test_an_event_sees_what_is_not_committed_but_its_reply_waits_for_it(
    log: FakeLog, time: FakeTime
) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit(5, replies.append)
    runtime.submit("read", replies.append)
    runtime.submit("bad", replies.append)
    assert replies == []
    log.commit(1)
    assert replies[:2] == [("added", 5), ("total", 5)]
    assert isinstance(replies[2], InvalidRequest)
    assert str(replies[2]) == "bad at 5"


def test_a_read_is_answered_at_once_when_all_it_saw_is_committed(
    log: FakeLog, time: FakeTime
) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit("read", replies.append)
    assert replies == [("total", 0)]


def test_replies_keep_the_order_in_which_they_were_decided(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    for number in (1, 2, 3):
        runtime.submit(number, replies.append)
    log.commit(2)
    assert replies == [("added", 1), ("added", 3)]
    log.commit(3)
    assert replies[-1] == ("added", 6)


def test_a_submit_from_within_a_reply_comes_after_those_that_waited(
    log: FakeLog, time: FakeTime
) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()

    def again(reply: Any) -> None:
        replies.append(reply)
        runtime.submit("read", replies.append)

    runtime.submit(1, again)
    runtime.submit(2, replies.append)
    log.commit(2)
    assert replies == [("added", 1), ("added", 3), ("total", 3)]


def test_losing_leadership_answers_everyone_who_waits_and_forgets_the_state(
    log: FakeLog, time: FakeTime
) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit(7, replies.append)
    log.lose(keep=0)
    assert isinstance(replies[0], NotCoordinator)
    runtime.submit(1, replies.append)
    assert isinstance(replies[1], NotCoordinator)
    assert runtime.machine.total == 0


def test_loading_runs_in_slices_and_turns_clients_away_meanwhile(
    log: FakeLog, time: FakeTime
) -> None:
    log.batches = [FakeBatch((1,), offset) for offset in range(1, 11)]
    log.committed_offset = 10
    runtime, replies = make(log, time)
    runtime.gained()
    turns = 0
    while runtime.state is State.LOADING:
        runtime.submit("read", replies.append)
        time.turn()
        turns += 1
    assert turns == 5  # four slices of three or fewer, and the one that finds the end
    assert all(isinstance(reply, CoordinatorLoadInProgress) for reply in replies)
    assert runtime.machine.loaded_with == 10


def test_losing_leadership_stops_a_load(log: FakeLog, time: FakeTime) -> None:
    log.batches = [FakeBatch((1,), offset) for offset in range(1, 11)]
    runtime, _ = make(log, time)
    runtime.gained()
    time.turn()
    runtime.lost()
    for _ in range(10):
        time.turn()
    assert runtime.state is State.INACTIVE
    assert runtime.machine.total == 0


def test_a_refused_append_fails_its_event_only(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    log.refuse = MessageTooLarge()
    runtime.submit(5, replies.append)
    assert isinstance(replies[0], MessageTooLarge)
    runtime.submit("read", replies.append)
    assert replies[1] == ("total", 0)


def test_a_failed_append_drops_the_machine(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit(1, replies.append)
    log.refuse = DiskFailed("gone")
    runtime.submit(5, replies.append)
    assert [type(reply) for reply in replies] == [KafkaStorageError, KafkaStorageError]
    assert runtime.state is State.INACTIVE


def test_a_timer_wakes_the_machine_and_counts_from_the_decision(
    log: FakeLog, time: FakeTime
) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit(1, replies.append)
    runtime.submit("later", replies.append)
    time.advance(30)
    log.commit(1)
    time.advance(19)
    assert runtime.machine.total == 1
    time.advance(1)
    assert runtime.machine.total == 101


def test_timers_go_with_leadership(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit("later", replies.append)
    log.lose(keep=0)
    assert time.waiting == []


def test_what_waits_has_a_limit(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time, parked_max=2)
    runtime.gained_now()
    for _ in range(3):
        runtime.submit(1, replies.append)
    assert [type(reply) for reply in replies] == [ThrottlingQuotaExceeded]


@dataclass
class _Asked:
    """One event of the simulation, and where its records ended."""

    end_offset: int
    answered: bool = False


@pytest.mark.parametrize("seed", range(60))
def test_replies_are_never_ahead_of_commits_and_state_is_what_the_log_says(seed: int) -> None:
    dice = random.Random(seed)
    log, time = FakeLog(per_slice=dice.randint(1, 4)), FakeTime()
    runtime, _ = make(log, time)
    runtime.gained_now()
    asked: list[_Asked] = []

    def submit(event: Any) -> None:
        item = _Asked(0)

        def done(reply: Any) -> None:
            assert not item.answered, "one answer for each event"
            item.answered = True
            if not isinstance(reply, KafkaError) or isinstance(reply, InvalidRequest):
                assert item.end_offset <= log.committed_offset, "an answer before its commit"

        asked.append(item)
        active = runtime.state is State.ACTIVE
        before = log.end_offset
        width = len(event) if isinstance(event, tuple) else isinstance(event, int)
        item.end_offset = before + width if active else 0
        runtime.submit(event, done)

    for _ in range(300):
        match dice.choice(["add", "add", "many", "read", "bad", "commit", "turn", "rare"]):
            case "add":
                submit(dice.randint(1, 9))
            case "many":
                submit(tuple(dice.randint(1, 9) for _ in range(dice.randint(1, 4))))
            case "read" | "bad" as event:
                submit(event)
            case "commit":
                ends = [b.end_offset for b in log.batches if b.end_offset > log.committed_offset]
                if ends:
                    log.commit(dice.choice(ends))
            case "turn":
                time.turn()
            case "rare":
                _shake(dice, log, runtime)
        if runtime.state is State.ACTIVE:
            assert runtime.machine.total == sum(sum(b.records) for b in log.batches)

    if runtime.state is not State.ACTIVE:
        runtime.gained_now()
    log.commit(log.end_offset)
    assert all(item.answered for item in asked), "everyone was answered"


def _shake(dice: random.Random, log: FakeLog, runtime: Runtime[Counter]) -> None:
    """Something goes wrong, or comes back."""
    if runtime.state is State.INACTIVE:
        runtime.gained()
    elif dice.random() < 0.5:
        log.refuse = dice.choice([MessageTooLarge(), DiskFailed("gone")])
    else:
        log.lose(keep=dice.randint(0, 2))
