"""Timers of the real loop."""

from penstock.real.loop import Loop


def test_a_timer_that_sets_itself_again_does_not_keep_the_loop_from_its_other_work() -> None:
    loop = Loop()
    ran: list[str] = []

    def again() -> None:
        ran.append("timer")
        loop.at(loop.mono_ms() - 1, again)

    loop.at(loop.mono_ms(), again)
    loop.at(loop.mono_ms() + 5, loop.stop)
    loop.run()
    loop.close()
    assert ran


def test_a_timer_that_another_one_cancels_in_the_same_turn_does_not_run() -> None:
    loop = Loop()
    ran: list[str] = []
    due = loop.mono_ms()
    second = loop.at(due, lambda: ran.append("second"))
    loop.at(due - 1, second.cancel)
    loop.at(due, loop.stop)
    loop.run()
    loop.close()
    assert ran == []
