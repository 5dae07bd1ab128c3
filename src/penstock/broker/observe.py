"""What the shell notices on its way: counted, and said once in a while rather than each time."""

import logging
import re

log = logging.getLogger("penstock.connections")

# A program that embeds a node decides what is logged; without this, Python prints warnings bare.
logging.getLogger("penstock").addHandler(logging.NullHandler())

SAID_PER_REASON_MAX = 10
SAID_WINDOW_MS = 60_000
KINDS_MAX = 64  # of reasons that are told apart; what peers send could make any number of them

_NUMBER = re.compile(r"\d+")
_OTHER = "other"


class _Kind:
    """Refusals for one reason, in this window."""

    __slots__ = ("last", "left_out", "said")

    def __init__(self) -> None:
        self.said = 0
        self.left_out = 0
        self.last = ""


class Observer:
    """Counts what was refused; the log gets the first few of a reason in each window, and then how
    many there were besides. Whoever has timers calls `sum_up` at the end of a window."""

    def __init__(self) -> None:
        self.refusals = 0
        self._kinds: dict[str, _Kind] = {}

    def refused(self, address: tuple[str, int], sent: str) -> None:
        """A peer sent what it must not; `sent` says what."""
        self._note(address, f"it sent {sent}")

    def turned_away(self, address: tuple[str, int], reason: str) -> None:
        """A peer that has done nothing wrong met a limit."""
        self._note(address, reason)

    def _note(self, address: tuple[str, int], reason: str) -> None:
        self.refusals += 1
        kind = self._kind(reason)
        if kind.said < SAID_PER_REASON_MAX:
            kind.said += 1
            log.warning("closed the connection from %s:%d: %s", *address, reason)
            return
        kind.left_out += 1
        kind.last = f"from {address[0]}:{address[1]}: {reason}"
        log.debug("closed the connection from %s:%d: %s", *address, reason)

    def _kind(self, reason: str) -> _Kind:
        """Reasons that differ in numbers or in what follows a colon are one reason."""
        name = _NUMBER.sub("0", reason.partition(": ")[0])
        if name not in self._kinds and len(self._kinds) >= KINDS_MAX:
            name = _OTHER
        return self._kinds.setdefault(name, _Kind())

    def sum_up(self) -> None:
        """The window is over: say how many were left out, and begin anew."""
        for kind in self._kinds.values():
            if kind.left_out:
                log.warning(
                    "%d more connections were closed and not told of one by one; the last, %s",
                    kind.left_out,
                    kind.last,
                )
        self._kinds.clear()
