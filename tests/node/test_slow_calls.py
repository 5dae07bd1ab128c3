"""Calls that hold up the real loop for seconds, and the log lines about them."""

import functools
import logging
from collections.abc import Callable

import pytest

from penstock.real import loop as loop_module
from penstock.real import slow_calls
from penstock.real.loop import Loop
from penstock.real.slow_calls import QUIET_SECONDS, SlowCalls
from penstock.testing.embedded_world import FastClockLoop


class Clock:
    """A monotonic clock that the calls of the loop set forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr(loop_module, "monotonic", lambda: self.now_s)

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.WARNING, slow_calls.log.name)
    return Clock(monkeypatch)


def turn(call: Callable[[], None]) -> None:
    loop = Loop()
    loop.soon(call)
    loop.turn()
    loop.close()


def test_a_slow_call_is_logged_by_its_name(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    turn(functools.partial(clock.pass_time, 3.0))
    assert caplog.messages == ["the loop was held up for 3.0 s by Clock.pass_time"]


def test_a_slow_timer_is_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    loop.at(clock.now_s * 1000, functools.partial(clock.pass_time, 1.5))
    loop.turn()
    loop.close()
    assert caplog.messages == ["the loop was held up for 1.5 s by Clock.pass_time"]


def test_a_fast_call_is_not_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    turn(functools.partial(clock.pass_time, 0.9))
    assert caplog.messages == []


class Asked:
    """A part of a node with a name of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def work(self) -> None:
        self._clock.pass_time(2.0)

    def describe(self) -> str:
        return "Metadata of a client"


def test_an_object_with_a_description_is_logged_by_that(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    turn(Asked(clock).work)
    assert caplog.messages == ["the loop was held up for 2.0 s by Metadata of a client"]


def test_a_late_awakening_is_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    loop.at(clock.now_s * 1000, lambda: None)
    clock.pass_time(4.0)
    loop.turn()
    loop.close()
    assert caplog.messages == [
        "the loop woke 4.0 s late: the machine is busy, or the process was stopped"
    ]


def test_a_turn_of_many_short_calls_is_logged(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop()
    for _ in range(10):
        loop.soon(functools.partial(clock.pass_time, 0.5))
    loop.turn()
    loop.close()
    assert caplog.messages == ["the loop was held up for 5.0 s by many short calls"]


def test_time_that_a_test_cluster_skips_is_no_lateness(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    loop = FastClockLoop()
    loop.at(clock.now_s * 1000 + 60_000, loop.stop)
    loop.leap_ms(120_000)
    loop.run()
    loop.close()
    assert caplog.messages == []


def test_further_slow_calls_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    slow = SlowCalls()
    for number in range(3):
        slow.ended(turn, 2.0, 1_000.0 + number)
    slow.ended(turn, 2.0, 1_000.0 + QUIET_SECONDS)
    assert caplog.messages == [
        "the loop was held up for 2.0 s by turn",
        "the loop was held up for 2.0 s by turn (2 earlier ones were not logged)",
    ]
