"""Those who are answered later: tickets, sends, and what a refused append does to them."""

from dataclasses import dataclass
from typing import Any

import pytest
from machine_fakes import FakeLog, FakeTime, Unfailing

from penstock.effects import Outcome, SetTimer, TicketAnswer
from penstock.errors import (
    CoordinatorLoadInProgress,
    MessageTooLarge,
    NotCoordinator,
    ThrottlingQuotaExceeded,
)
from penstock.machine.protocols import LogUnreadable
from penstock.machine.runtime import Runtime, RuntimeState


@dataclass(frozen=True)
class TakeBack:
    """Whoever waits is sent away."""


@dataclass(frozen=True)
class Nothing:
    """There is nothing to be taken back."""


class Doorman(Unfailing):
    """Lets people in two by two: the first of a pair waits for the second. Its log counts pairs."""

    def __init__(self) -> None:
        self.waiting: str | None = None
        self.pairs = 0

    def handle(self, event: Any, now_ms: int) -> Outcome:  # noqa: ARG002
        if event == "pairs":
            return Outcome(reply=self.pairs)
        if event == "later":
            return Outcome(timers=[SetTimer("t", 10, "clock")])
        if event == "clock":
            return Outcome(records=[0])
        if isinstance(event, TakeBack):
            if self.waiting is None:
                return Outcome()
            return Outcome(answers=[TicketAnswer(self.waiting, "come again")])
        if event == "eve":  # whose record has somebody who can take it back
            return Outcome(records=[1], parked="eve", if_rejected=TakeBack())
        if event in ("fay", "guy"):  # who let those in that wait, if they can be counted
            answers = [] if self.waiting is None else [self._called(event)]
            return Outcome([1], "alone", answers=answers, if_rejected=Nothing())
        if isinstance(event, Nothing):
            return Outcome()
        if self.waiting is None:
            self.waiting = event
            return Outcome(parked=event)
        first, self.waiting = self.waiting, None
        return Outcome(
            records=[1],
            reply=f"after {first}",
            answers=[TicketAnswer(first, f"with {event}")],
            sends=[f"{first}+{event}"],
        )

    def _called(self, name: str) -> TicketAnswer:
        assert self.waiting is not None
        return TicketAnswer(self.waiting, f"called by {name}", waits_on=name == "guy")

    def replay(self, record: Any) -> None:
        self.pairs += record

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None: ...

    def loaded(self, now_ms: int) -> Outcome:  # noqa: ARG002
        return Outcome(records=self.at_the_start, timers=[SetTimer("opening", 5, "clock")])

    at_the_start: tuple[int, ...] = ()


class House:
    """A runtime with a doorman, and everything that came out of it."""

    def __init__(self, parked_max: int = 100) -> None:
        self.log = FakeLog()
        self.time = FakeTime()
        self.heard: list[tuple[str, Any]] = []
        self.runtime: Runtime[Doorman] = Runtime(
            Doorman,
            self.log,
            self.time,
            self.time,
            while_loading=CoordinatorLoadInProgress,
            when_lost=NotCoordinator,
            when_full=ThrottlingQuotaExceeded,
            send=lambda sent: self.heard.append(("sent", sent)),
            unreadable=lambda problem: self.heard.append(("unreadable", str(problem))),
            parked_max=parked_max,
        )
        self.runtime.gained_now()

    def comes(self, name: str) -> None:
        self.runtime.submit(name, lambda reply: self.heard.append((name, reply)))


@pytest.fixture
def house() -> House:
    return House()


def test_whoever_is_parked_hears_nothing_until_the_machine_names_the_ticket(house: House) -> None:
    house.comes("ann")
    assert house.heard == []


def test_an_answer_to_a_ticket_waits_for_the_records_beside_it(house: House) -> None:
    house.comes("ann")
    house.comes("bob")
    assert house.heard == []
    house.log.commit(1)
    assert ("ann", "with bob") in house.heard


def test_what_is_sent_leaves_before_the_replies_and_after_the_commit(house: House) -> None:
    house.comes("ann")
    house.comes("bob")
    house.log.commit(1)
    assert house.heard == [("sent", "ann+bob"), ("bob", "after ann"), ("ann", "with bob")]


def test_losing_leadership_answers_those_who_are_parked(house: House) -> None:
    house.comes("ann")
    house.log.lose(keep=0)
    assert [(name, type(reply)) for name, reply in house.heard] == [("ann", NotCoordinator)]


def test_losing_leadership_answers_those_whose_answer_was_not_committed(house: House) -> None:
    house.comes("ann")
    house.comes("bob")
    house.log.lose(keep=0)
    assert sorted((name, type(reply)) for name, reply in house.heard) == [
        ("ann", NotCoordinator),
        ("bob", NotCoordinator),
    ]


def test_a_refused_append_rebuilds_a_machine_that_had_answered_somebody(house: House) -> None:
    house.comes("ann")
    house.log.refuse = MessageTooLarge()
    house.comes("bob")
    assert sorted((name, type(reply)) for name, reply in house.heard) == [
        ("ann", MessageTooLarge),
        ("bob", MessageTooLarge),
    ]
    assert house.runtime.state is RuntimeState.LOADING
    house.time.turn()
    assert house.runtime.machine.waiting is None


def test_a_rebuilt_machine_has_what_the_log_holds(house: House) -> None:
    for name in ("ann", "bob", "cat"):
        house.comes(name)
    house.log.refuse = MessageTooLarge()
    house.comes("dan")
    while house.runtime.state is RuntimeState.LOADING:
        house.time.turn()
    house.log.commit(1)
    house.comes("pairs")
    assert house.heard[-1] == ("pairs", 1)


def test_a_timer_comes_through_when_nobody_else_may() -> None:
    house = House(parked_max=1)
    house.comes("later")
    house.comes("ann")
    house.comes("bob")
    house.time.advance(10)
    assert [batch.records for batch in house.log.batches] == [(1,), (0,), (0,)]


def test_a_load_whose_records_are_refused_keeps_its_timers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Doorman, "at_the_start", (1,))
    house.log.refuse = MessageTooLarge()
    house.runtime.gained_now()
    house.time.advance(5)
    assert [batch.records for batch in house.log.batches] == [(0,)]


def test_a_machine_that_can_take_a_refused_record_back_is_not_rebuilt(house: House) -> None:
    house.comes("ann")
    house.log.refuse = MessageTooLarge()
    house.comes("eve")
    assert [(name, type(reply)) for name, reply in house.heard[:1]] == [("eve", MessageTooLarge)]
    assert house.heard[1:] == [("ann", "come again")]
    assert house.runtime.state is RuntimeState.ACTIVE


def test_whoever_waits_hears_that_the_records_of_its_answer_were_refused(house: House) -> None:
    house.comes("ann")
    house.log.refuse = MessageTooLarge()
    house.comes("fay")
    assert [(name, type(reply)) for name, reply in house.heard] == [
        ("fay", MessageTooLarge),
        ("ann", MessageTooLarge),
    ]


def test_whoever_can_wait_on_hears_nothing_of_records_that_were_refused(house: House) -> None:
    house.comes("ann")
    house.log.refuse = MessageTooLarge()
    house.comes("guy")
    assert [(name, type(reply)) for name, reply in house.heard] == [("guy", MessageTooLarge)]
    house.comes("guy")
    house.log.commit(1)
    assert ("ann", "called by guy") in house.heard


def test_a_log_that_cannot_be_read_leaves_its_machine_away_and_says_so() -> None:
    house = House()
    house.log.lose(keep=0)
    house.log.unreadable = LogUnreadable("nobody knows this")
    house.runtime.gained()
    house.time.turn()
    assert house.heard == [("unreadable", "nobody knows this")]
    assert house.runtime.state is RuntimeState.INACTIVE
