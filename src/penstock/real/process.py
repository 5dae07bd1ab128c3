"""The process around a node: signals in, and a garbage collector that keeps out of the way."""

import gc
import signal
from collections.abc import Callable

from penstock.real.descriptors import raise_limit
from penstock.real.loop import Loop

# Nothing on the hot path makes cycles; a full collection over a large metadata image would only
# show up as a pause. Young collections stay, rarer.
GC_THRESHOLDS = (50_000, 50, 100)


def prepare() -> None:
    """Before a node opens anything."""
    raise_limit()


def run_until_signal(loop: Loop, stop: Callable[[], None]) -> None:
    """Run the loop; SIGTERM and SIGINT call `stop` on it, which ends the loop in its own time."""

    def on_signal(_number: int, _frame: object) -> None:
        loop.call_from_thread(stop)

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGTERM, signal.SIGINT)}
    gc.freeze()  # what the imports made stays; a collection first would find next to nothing
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()  # whoever started this process had nothing to collect until here
    try:
        loop.run()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
