"""The runtime: replies wait for commits, order is kept, a lost machine is rebuilt from the log."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
from machine_fakes import FakeBatch, FakeLog, FakeTime, Unfailing

from penstock.effects import Outcome, SetTimer
from penstock.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    ThrottlingQuotaExceeded,
    UnknownServerError,
)
from penstock.machine.runtime import Runtime, RuntimeState
from penstock.wire.primitives import Malformed, UnencodableValue
from penstock.world import DiskFailed


class Counter(Unfailing):
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
    assert replies[2].message == "bad at 5"


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
    while runtime.state is RuntimeState.LOADING:
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
    assert runtime.state is RuntimeState.INACTIVE
    assert runtime.machine.total == 0


def test_a_refused_append_fails_its_event_only(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    log.refuse = MessageTooLarge()
    runtime.submit(5, replies.append)
    assert isinstance(replies[0], MessageTooLarge)
    runtime.submit("read", replies.append)
    assert replies[1] == ("total", 0)


@pytest.mark.parametrize(
    "problem", [UnencodableValue("a string of 40000 bytes"), Malformed("what?")]
)
def test_records_that_cannot_be_written_fail_their_event_only(
    log: FakeLog, time: FakeTime, problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    log.refuse = problem
    runtime.submit(5, replies.append)
    runtime.submit("read", replies.append)
    assert isinstance(replies[0], UnknownServerError)
    assert replies[1] == ("total", 0)
    assert str(problem) in caplog.text


def test_a_timer_whose_records_cannot_be_written_ends_nothing(log: FakeLog, time: FakeTime) -> None:
    runtime, _ = make(log, time)
    runtime.gained_now()
    runtime.submit("later")
    log.refuse = UnencodableValue("a string of 40000 bytes")
    time.advance(50)
    assert runtime.state is RuntimeState.ACTIVE
    assert runtime.machine.total == 0


def test_a_failed_append_drops_the_machine(log: FakeLog, time: FakeTime) -> None:
    runtime, replies = make(log, time)
    runtime.gained_now()
    runtime.submit(1, replies.append)
    log.refuse = DiskFailed("gone")
    runtime.submit(5, replies.append)
    assert [type(reply) for reply in replies] == [KafkaStorageError, KafkaStorageError]
    assert runtime.state is RuntimeState.INACTIVE


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
        active = runtime.state is RuntimeState.ACTIVE
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
        if runtime.state is RuntimeState.ACTIVE:
            assert runtime.machine.total == sum(sum(b.records) for b in log.batches)

    if runtime.state is not RuntimeState.ACTIVE:
        runtime.gained_now()
    log.commit(log.end_offset)
    assert all(item.answered for item in asked), "everyone was answered"


def _shake(dice: random.Random, log: FakeLog, runtime: Runtime[Counter]) -> None:
    """Something goes wrong, or comes back."""
    if runtime.state is RuntimeState.INACTIVE:
        runtime.gained()
    elif dice.random() < 0.5:
        log.refuse = dice.choice([MessageTooLarge(), DiskFailed("gone")])
    else:
        log.lose(keep=dice.randint(0, 2))
