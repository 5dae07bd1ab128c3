"""An exception of a machine's own code costs its subject, is logged once, and leaves nobody else
without an answer."""

import logging
from typing import Any

import pytest
from machine_fakes import FakeLog, FakeTime

from penstock.effects import Failure, Outcome, SetTimer, TicketAnswer
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    UnknownServerError,
)
from penstock.machine.runtime import Runtime, RuntimeState


class Rooms:
    """Words by room, of records "room word". The word "boom" fails in `handle`, "rot" in `replay`,
    "worse" in `recover` too; "wait" parks whoever asks, "later" sets a timer that fails."""

    def __init__(self) -> None:
        self.words: dict[str, list[str]] = {}
        self.waiting: dict[str, int] = {}
        self.aside: set[str] = set()

    def handle(self, event: str, now_ms: int) -> Outcome:  # noqa: ARG002
        room, word = event.split()
        match word:
            case "boom" | "worse":
                raise RuntimeError(word)
            case "wait":
                self.waiting[room] = len(self.waiting)
                return Outcome(parked=self.waiting[room])
            case "later":
                return Outcome(timers=[SetTimer(room, 10, f"{room} boom")])
            case "send":
                return Outcome(sends=[event], reply="sent")
        return Outcome([event], reply=word)

    def replay(self, record: str) -> None:
        room, word = record.split()
        if word == "rot":
            raise ValueError(word)
        self.words.setdefault(room, []).append(word)

    def replayed(self, end_offset: int, epoch: int, timestamp_ms: int) -> None: ...

    def loaded(self, now_ms: int) -> Outcome:  # noqa: ARG002
        return Outcome()

    def recover(self, event: str, problem: Exception, now_ms: int) -> Outcome:  # noqa: ARG002
        room, word = event.split()
        if word == "worse":
            raise problem
        answers = []
        if room in self.waiting:
            answers.append(TicketAnswer(self.waiting.pop(room), CoordinatorNotAvailable()))
        return Outcome(answers=answers, failures=[Failure(room, problem, "It goes on.")])

    def set_aside(self, record: str, problem: Exception) -> Failure:
        room, _ = record.split()
        self.aside.add(room)
        return Failure(f"{room} aside", problem, "It is not served.")


class House:
    def __init__(self) -> None:
        self.log, self.time = FakeLog(), FakeTime()
        self.unreadable: list[Exception] = []
        self.runtime: Runtime[Rooms] = Runtime(
            Rooms,
            self.log,
            self.time,
            self.time,
            while_loading=CoordinatorLoadInProgress,
            when_lost=NotCoordinator,
            when_full=CoordinatorNotAvailable,
            send=self.send,
            unreadable=self.unreadable.append,
        )
        self.runtime.gained_now()

    def send(self, effect: Any) -> None:
        raise RuntimeError(f"cannot send {effect}")

    def ask(self, event: str) -> list[Any]:
        heard: list[Any] = []
        self.runtime.submit(event, heard.append)
        self.log.commit(self.log.end_offset)
        return heard


@pytest.fixture
def house(machine_failures: list[logging.LogRecord]) -> House:  # noqa: ARG001
    return House()


def errors(failures: list[logging.LogRecord]) -> list[str]:
    return [each.getMessage() for each in failures if each.levelno == logging.ERROR]


def test_a_request_whose_handling_fails_is_answered_and_the_next_is_served(house: House) -> None:
    [answer] = house.ask("red boom")
    assert isinstance(answer, UnknownServerError)
    assert "RuntimeError('boom')" in answer.message
    assert house.ask("red hello") == ["hello"]


def test_what_the_machine_mends_after_a_failure_is_performed(house: House) -> None:
    waiting = house.ask("red wait")
    house.ask("red boom")
    [answer] = waiting
    assert isinstance(answer, CoordinatorNotAvailable)


def test_a_timer_that_fails_again_and_again_ends_nothing_and_is_logged_once(
    house: House, machine_failures: list[logging.LogRecord]
) -> None:
    for _ in range(3):
        house.ask("red later")
        house.time.advance(20)
    assert errors(machine_failures) == ["red: RuntimeError('boom'). It goes on."]
    assert house.ask("blue hello") == ["hello"]


def test_a_record_that_cannot_be_replayed_sets_its_subject_aside_and_no_other(
    house: House,
) -> None:
    house.ask("red rot")
    house.ask("blue hello")
    assert house.runtime.machine.aside == {"red"}
    assert house.runtime.machine.words == {"blue": ["hello"]}


def test_a_log_with_such_a_record_is_loaded_again_the_same_way(house: House) -> None:
    house.ask("red rot")
    house.ask("blue hello")
    house.runtime.gained_now()
    assert house.runtime.state is RuntimeState.ACTIVE
    assert house.runtime.machine.aside == {"red"}
    assert house.runtime.machine.words == {"blue": ["hello"]}


def test_a_machine_that_cannot_mend_is_loaded_again_from_its_log(house: House) -> None:
    house.ask("blue hello")
    waiting = house.ask("red wait")
    [answer] = house.ask("red worse")
    house.time.turn()
    house.time.turn()
    house.time.turn()
    assert isinstance(answer, UnknownServerError)
    assert isinstance(waiting[0], KafkaError)
    assert house.runtime.machine.words == {"blue": ["hello"]}


def test_a_reply_that_fails_costs_no_other_reply(
    house: House, machine_failures: list[logging.LogRecord]
) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("the connection is odd")

    heard: list[Any] = []
    house.runtime.submit("red hello", fail)
    house.runtime.submit("blue hello", heard.append)
    house.log.commit(2)
    assert heard == ["hello"]
    assert len(errors(machine_failures)) == 1


def test_a_reply_that_fails_within_its_submit_fails_there(house: House) -> None:
    def fail(_: Any) -> None:
        raise RuntimeError("the connection is odd")

    with pytest.raises(RuntimeError, match="odd"):
        house.runtime.submit("red send", fail)
    assert house.ask("blue hello") == ["hello"]


def test_a_send_that_fails_costs_no_reply(
    house: House, machine_failures: list[logging.LogRecord]
) -> None:
    assert house.ask("red send") == ["sent"]
    assert "cannot send" in errors(machine_failures)[0]


def test_a_load_that_fails_keeps_the_machine_away_and_says_so(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: Rooms, _now_ms: int) -> Outcome:
        raise RuntimeError("not loaded")

    monkeypatch.setattr(Rooms, "loaded", fail)
    house.runtime.gained()
    house.time.turn()
    assert "not loaded" in str(house.unreadable[0])
    assert house.runtime.state is RuntimeState.INACTIVE
