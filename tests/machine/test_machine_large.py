"""Outcomes of many records: one batch in the log, made and replayed over several turns."""

import itertools
from typing import Any

import pytest
from machine_fakes import FakeLog, FakeTime, Unfailing

from penstock.effects import Outcome
from penstock.errors import (
    CoordinatorLoadInProgress,
    InvalidRequest,
    KafkaStorageError,
    NotCoordinator,
    ThrottlingQuotaExceeded,
    UnknownServerError,
)
from penstock.machine.runtime import RECORDS_PER_TURN_MAX, Runtime
from penstock.world import DiskFailed

MANY = 3 * RECORDS_PER_TURN_MAX + 1
TURNS_MAX = 20


class Counter(Unfailing):
    """Counts its records; an event is how many to write, or a list of them."""

    def __init__(self) -> None:
        self.seen = 0

    def handle(self, event: Any, now_ms: int) -> Outcome:  # noqa: ARG002
        records = ["one"] * event if isinstance(event, int) else event
        return Outcome(records, (self.seen, len(records)))

    def replay(self, record: Any) -> None:  # noqa: ARG002
        self.seen += 1

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None: ...

    def loaded(self, now_ms: int) -> Outcome:  # noqa: ARG002
        return Outcome()


class Life:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.time = FakeTime()
        self.replies: list[Any] = []
        self.told: list[tuple[int, int]] = []  # (committed offset, records seen by then)
        self.runtime: Runtime[Counter] = Runtime(
            Counter,
            self.log,
            self.time,
            self.time,
            while_loading=CoordinatorLoadInProgress,
            when_lost=NotCoordinator,
            when_full=ThrottlingQuotaExceeded,
            before_release=lambda offset: self.told.append((offset, self.runtime.machine.seen)),
            begin=self.log.begin,
            parked_max=5,
        )
        self.runtime.gained_now()

    def submit(self, event: Any) -> None:
        self.runtime.submit(event, self.replies.append)

    def settle(self) -> int:
        """Until nothing waits for a turn; how many it took."""
        turns = 0
        while self.time.next:
            self.time.turn()
            turns += 1
            assert turns < TURNS_MAX
        return turns


@pytest.fixture
def life() -> Life:
    return Life()


def test_many_records_become_one_batch(life: Life) -> None:
    life.submit(MANY)
    life.settle()
    assert [len(batch.records) for batch in life.log.batches] == [MANY]
    assert life.runtime.machine.seen == MANY


def test_no_turn_has_more_than_its_share(life: Life) -> None:
    life.submit(MANY)
    seen = [life.runtime.machine.seen]
    while life.time.next:
        life.time.turn()
        seen.append(life.runtime.machine.seen)
    steps = [after - before for before, after in itertools.pairwise(seen)]
    assert max(steps) == RECORDS_PER_TURN_MAX


def test_what_comes_meanwhile_is_handled_after_it(life: Life) -> None:
    life.submit(MANY)
    life.submit(2)
    life.submit(3)
    life.settle()
    life.log.commit(life.log.end_offset)
    assert life.replies == [(0, MANY), (MANY, 2), (MANY + 2, 3)]


def test_two_large_ones_keep_their_order(life: Life) -> None:
    life.submit(MANY)
    life.submit(MANY)
    life.settle()
    life.log.commit(life.log.end_offset)
    assert life.replies == [(0, MANY), (MANY, MANY)]


def test_a_record_without_a_place_refuses_them_all(life: Life) -> None:
    life.submit(["one"] * MANY + ["unwritable"])
    life.submit(1)
    life.settle()
    life.log.commit(life.log.end_offset)
    assert isinstance(life.replies[0], UnknownServerError)
    assert life.replies[1] == (0, 1)


def test_a_log_that_refuses_them_is_told_and_the_next_is_handled(life: Life) -> None:
    life.log.refuse = InvalidRequest("no")
    life.submit(MANY)
    life.submit(1)
    life.settle()
    life.log.commit(life.log.end_offset)
    assert isinstance(life.replies[0], InvalidRequest)
    assert life.replies[1] == (0, 1)


def test_a_disk_that_fails_answers_everybody_once(life: Life) -> None:
    life.log.refuse = DiskFailed("gone")
    life.submit(MANY)
    life.submit(1)
    life.settle()
    assert [type(reply) for reply in life.replies] == [KafkaStorageError, KafkaStorageError]


def test_losing_the_log_in_the_middle_answers_everybody_once(life: Life) -> None:
    life.submit(MANY)
    life.submit(1)
    life.time.turn()
    life.log.lose(keep=0)
    life.settle()
    assert [type(reply) for reply in life.replies] == [NotCoordinator, NotCoordinator]


def test_those_who_wait_behind_it_are_bounded(life: Life) -> None:
    life.submit(MANY)
    for _ in range(6):
        life.submit(1)
    assert [type(reply) for reply in life.replies] == [ThrottlingQuotaExceeded]


def test_a_commit_that_comes_before_all_is_replayed_is_told_again(life: Life) -> None:
    life.submit(MANY)
    while not life.log.batches:
        life.time.turn()
    life.log.commit(MANY)
    assert life.replies == []
    life.settle()
    assert life.told[-1] == (MANY, MANY)
    assert life.replies == [(0, MANY)]
