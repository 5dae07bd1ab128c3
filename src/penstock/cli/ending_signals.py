"""SIGTERM and SIGHUP for commands that go on until somebody ends them: an orderly end.

Such a command has something to do at its end: commit what it printed and leave its group, give a
terminal back.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# What a shell says of a program that a signal has ended is this, and the number of the signal.
SIGNALLED = 128


class Signalled(SystemExit):
    """Raised where the command is, as KeyboardInterrupt is; it ends with the code of the signal."""

    code: int


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Who was started with a signal ignored (nohup) goes on ignoring it."""
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
