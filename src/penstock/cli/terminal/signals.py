"""An orderly end by SIGTERM and SIGHUP for commands that run until they are interrupted.

Such a command has work at its end: commit printed records, leave its group, restore the terminal.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# Shells use this plus the signal's number as the exit code of a killed program.
SIGNALLED = 128


class Signalled(SystemExit):
    """Raised at the signal, like KeyboardInterrupt; carries the exit code of the signal."""

    code: int


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise Signalled for signals; those ignored at the start (nohup) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in SIGNALS}
    ours = [each for each, handler in before.items() if handler is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, _end)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, before[each])


def _end(number: int, _frame: FrameType | None) -> None:
    raise Signalled(SIGNALLED + number)
