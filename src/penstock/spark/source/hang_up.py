"""The end of a source's process: Spark hangs up, which is no error to be printed.

A query that stops closes the socket to the process that plans for it. PySpark's loop there meets
the end of the stream, tries to report it to Spark, fails, and ends with three tracebacks.
"""

import sys
from collections.abc import Callable
from types import TracebackType

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def end_quietly() -> None:
    """Let this process end without a traceback when Spark hangs up; other errors are printed."""
    if not isinstance(sys.excepthook, QuietHook):
        sys.excepthook = QuietHook(sys.excepthook)


class QuietHook:
    """Prints what ends the process, unless Spark has hung up."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if not _is_hang_up(error):
            self._hook(kind, error, trace)


def _is_hang_up(error: BaseException | None) -> bool:
    """Return whether the stream had ended before the report of it failed."""
    if not isinstance(error, ConnectionError):
        return False
    while error is not None:
        if isinstance(error, EOFError):
            return True
        error = error.__context__
    return False
