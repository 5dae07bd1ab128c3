"""What the shell notices on its way: counted, and said once in a while rather than each time."""

import logging

log = logging.getLogger("penstock.connections")

SAID_PER_REASON_MAX = 10


class Observer:
    """Counts what was refused; the log gets the first few of a kind, not a flood."""

    def __init__(self) -> None:
        self.refusals = 0
        self._said = 0

    def refused(self, address: tuple[str, int], reason: str) -> None:
        self.refusals += 1
        if self._said < SAID_PER_REASON_MAX:
            self._said += 1
            log.warning("closed the connection from %s:%d: it sent %s", *address, reason)
        else:
            log.debug("closed the connection from %s:%d: it sent %s", *address, reason)
