"""Log lines for calls that hold up the loop for seconds: clients, heartbeats and elections wait."""

import functools
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

log = logging.getLogger("penstock.loop")

SLOW_SECONDS: Final = 1.0
QUIET_SECONDS: Final = 10.0  # after a line, further ones are only counted


@runtime_checkable
class NamedCaller(Protocol):
    """An object whose calls are known by more than the name of a function."""

    def describe(self) -> str: ...


class SlowCalls:
    """Logs slow calls of a loop, one line at a time."""

    def __init__(self) -> None:
        self._quiet_until_s = 0.0
        self._left_out = 0
        self._ended_s = 0.0  # the last slow call

    def ended(self, call: Callable[..., Any], took_s: float, now_s: float) -> None:
        """Log a call that has just held up the loop."""
        self._ended_s = now_s
        self._log(now_s, "the loop was held up for %.1f s by %s", took_s, _name_of(call))

    def turn_ended(self, took_s: float, now_s: float) -> None:
        """Log a long turn, unless one of its calls explains it."""
        if self._ended_s <= now_s - took_s:
            self._log(now_s, "the loop was held up for %.1f s by many short calls", took_s)

    def woke_late(self, late_s: float, now_s: float) -> None:
        """Log that the system let the loop wait beyond its time."""
        self._log(
            now_s,
            "the loop woke %.1f s late: the machine is busy, or the process was stopped",
            late_s,
        )

    def _log(self, now_s: float, words: str, *values: object) -> None:
        if now_s < self._quiet_until_s:
            self._left_out += 1
            return
        more = f" ({self._left_out} earlier ones were not logged)" if self._left_out else ""
        log.warning(words + "%s", *values, more)
        self._quiet_until_s = now_s + QUIET_SECONDS
        self._left_out = 0


def _name_of(call: Callable[..., Any]) -> str:
    while isinstance(call, functools.partial):
        call = call.func
    owner = getattr(call, "__self__", None)
    if isinstance(owner, NamedCaller):
        return owner.describe()
    return getattr(call, "__qualname__", repr(call))
