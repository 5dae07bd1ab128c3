"""The process around a node: signals, and the settings of the garbage collector."""

import gc
import signal
from collections.abc import Callable

from penstock.real.descriptors import raise_limit
from penstock.real.loop import Loop

# The hot path makes no cycles, so collections find little. Each one stops the loop in proportion to
# the objects visited. So collect few young objects at a time and seldom all, because a large image
# is among them. Decision 9 has the measurement.
GC_THRESHOLDS = (2_000, 10, 2_000)


def prepare() -> None:
    """Prepare the process before a node opens anything."""
    raise_limit()


def run_until_signal(
    loop: Loop, stop: Callable[[], None], reload: Callable[[], None] | None = None
) -> None:
    """Run the loop; SIGTERM and SIGINT call `stop` on it, which ends the loop in its own time.
    SIGHUP calls `reload`, if that is given."""

    def on_signal(number: int, _frame: object) -> None:
        loop.call_from_thread(calls[number])

    calls: dict[int, Callable[[], None]] = {signal.SIGTERM: stop, signal.SIGINT: stop}
    if reload is not None:
        calls[signal.SIGHUP] = reload
    before = {each: signal.signal(each, on_signal) for each in calls}
    gc.freeze()  # objects of the imports stay; a collection first would find next to nothing
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()  # the starting process disables collection until here
    try:
        loop.run()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
