"""Answers that wait for another thread: its news must always wake the loop."""

import os
import random
from collections.abc import Iterator

import pytest

from penstock.real.loop import CANCELLED_TIMERS_MIN, Loop, LoopTimer


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


def test_a_call_that_comes_while_the_wake_up_is_read_is_not_lost(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    real_read = os.read

    def read_with_a_call_before(fd: int, size: int) -> bytes:
        monkeypatch.setattr("os.read", real_read)
        loop.call_from_thread(lambda: ran.append("during"))
        return real_read(fd, size)

    loop.call_from_thread(lambda: ran.append("before"))
    monkeypatch.setattr("os.read", read_with_a_call_before)
    loop.turn()
    assert ran == ["before", "during"]


def test_the_loop_is_woken_again_after_such_a_call(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_read = os.read

    def read_with_a_call_before(fd: int, size: int) -> bytes:
        monkeypatch.setattr("os.read", real_read)
        loop.call_from_thread(lambda: None)
        return real_read(fd, size)

    loop.call_from_thread(lambda: None)
    monkeypatch.setattr("os.read", read_with_a_call_before)
    loop.turn()
    loop.call_from_thread(lambda: None)
    assert loop.poller.poll(0), "a byte waits in the pipe"


def test_cancelled_timers_leave_the_heap(loop: Loop) -> None:
    due_ms = loop.mono_ms() + 600_000
    kept = [loop.at(due_ms + place, lambda: None) for place in range(100)]
    for _ in range(10_000):
        loop.at(due_ms, lambda: None).cancel()
        assert loop.timer_count <= 2 * (len(kept) + CANCELLED_TIMERS_MIN) + 2
    assert loop.timer_count >= len(kept)


def test_timers_fire_in_order_although_others_are_cancelled(loop: Loop) -> None:
    chance = random.Random(3)
    fired: list[int] = []
    now_ms = loop.mono_ms()
    waits = list(range(3_000))
    chance.shuffle(waits)
    timers = {wait: loop.at(now_ms - wait, lambda w=wait: fired.append(w)) for wait in waits}  # type: ignore[misc]
    gone = chance.sample(waits, 2_500)
    for wait in gone:
        timers[wait].cancel()
        timers[wait].cancel()
    loop.soon(lambda: None)
    loop.turn()
    assert fired == sorted(set(waits) - set(gone), reverse=True)


def test_a_timer_may_cancel_others_that_are_due(loop: Loop) -> None:
    fired: list[int] = []
    later: list[LoopTimer] = []

    def first() -> None:
        for timer in later:
            timer.cancel()

    now_ms = loop.mono_ms()
    loop.at(now_ms - 10, first)
    later += [loop.at(now_ms - 5, lambda: fired.append(1)) for _ in range(1_000)]
    survivor = loop.at(now_ms - 1, lambda: fired.append(2))
    loop.turn()
    survivor.cancel()
    assert fired == [2]
    assert loop.timer_count == 0
