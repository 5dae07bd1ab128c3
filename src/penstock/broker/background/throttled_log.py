"""A log of closed connections that counts every one and logs only some of them."""

import logging
import re

log = logging.getLogger("penstock.connections")

# A program that embeds a node decides what is logged; without this, Python prints warnings bare.
logging.getLogger("penstock").addHandler(logging.NullHandler())

LOGGED_PER_REASON_MAX = 10
LOG_WINDOW_MS = 60_000
KINDS_MAX = 64  # reasons counted apart; peers could cause any number

_NUMBER = re.compile(r"\d+")
_OTHER = "other"


class _RejectionKind:
    """Connections closed for one reason, in this window."""

    __slots__ = ("last", "left_out", "logged")

    def __init__(self) -> None:
        self.logged = 0
        self.left_out = 0
        self.last = ""


class ThrottledLog:
    """Counts closed connections. The log gets the first few of each reason in a window, and then
    the number of the others. The background tasks call `sum_up` at the end of a window."""

    def __init__(self) -> None:
        self.rejected = 0
        self._kinds: dict[str, _RejectionKind] = {}

    def protocol_error(self, address: tuple[str, int], sent: str) -> None:
        """Log that a peer broke the protocol; `sent` names the bytes or the request."""
        self._note(address, f"it sent {sent}")

    def limit_reached(self, address: tuple[str, int], reason: str) -> None:
        """Log that a peer met a limit, without a fault of its own."""
        self._note(address, reason)

    def _note(self, address: tuple[str, int], reason: str) -> None:
        self.rejected += 1
        kind = self._kind(reason)
        if kind.logged < LOGGED_PER_REASON_MAX:
            kind.logged += 1
            log.warning("closed the connection from %s:%d: %s", *address, reason)
            return
        kind.left_out += 1
        kind.last = f"from {address[0]}:{address[1]}: {reason}"
        log.debug("closed the connection from %s:%d: %s", *address, reason)

    def _kind(self, reason: str) -> _RejectionKind:
        """Return the counter of a reason. Numbers, and text after a colon, make no other reason."""
        name = _NUMBER.sub("0", reason.partition(": ")[0])
        if name not in self._kinds and len(self._kinds) >= KINDS_MAX:
            name = _OTHER
        return self._kinds.setdefault(name, _RejectionKind())

    def sum_up(self) -> None:
        """End the window: log how many lines were left out, and count again from 0."""
        for kind in self._kinds.values():
            if kind.left_out:
                log.warning(
                    "%d more connections were closed and not told of one by one; the last, %s",
                    kind.left_out,
                    kind.last,
                )
        self._kinds.clear()
