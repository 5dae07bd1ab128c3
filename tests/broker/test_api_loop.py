"""Answers that wait for another thread: its news must always wake the loop."""

import os
from collections.abc import Iterator

import pytest

from penstock.real.loop import Loop


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
