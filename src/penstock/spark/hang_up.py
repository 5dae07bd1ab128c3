"""Suppresses tracebacks after Java has closed a connection because a query stopped.

The planning process of a source sees the end of its stream, cannot report that to Java, and would
end with three tracebacks. The driver's server for accumulators would print one if a stopped task
was sending an update.
"""

import sys
from collections.abc import Callable
from socketserver import BaseServer
from types import TracebackType
from typing import Any

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def end_quietly() -> None:
    """Let this process end without a traceback if Spark closes the connection; print other
    errors."""
    if not isinstance(sys.excepthook, QuietHook):
        sys.excepthook = QuietHook(sys.excepthook)


def take_updates_quietly(server: BaseServer) -> None:
    """Let the driver's server for accumulators print no traceback for a closed connection."""
    handle_error = server.handle_error

    def handle_other_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError):
            handle_error(request, address)

    server.handle_error = handle_other_error  # type: ignore[method-assign, assignment]


class QuietHook:
    """Prints the exception that ends the process, unless Spark has closed the connection."""

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
