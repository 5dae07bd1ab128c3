"""Counts what became of the records of `penstock produce`."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.cli.rdkafka import error_text, is_timeout
from penstock.cli.timed_out import NO_PARTITION

if TYPE_CHECKING:
    from confluent_kafka import Message

# Complaints beyond this many are counted, not printed.
COMPLAINTS_MAX = 5


class Tally:
    """A record is accepted by the client first, and then written or failed; some are refused."""

    def __init__(self, say: Callable[[str], None] = note) -> None:
        self._say = say
        self.accepted = 0
        self.undelivered = 0
        self.refused = 0
        self.broken_off = False  # the input could not be read to its end
        self.last_error: str | None = None
        self.timed_out: set[int] = set()  # partitions whose records did not leave in time

    @property
    def failed(self) -> int:
        return self.undelivered + self.refused

    @property
    def written(self) -> int:
        """Once nothing is on its way any more."""
        return self.accepted - self.undelivered

    def delivery_failed(self, error: object, message: "Message") -> None:
        """Called by the producer for each record that was accepted and not written."""
        self.undelivered += 1
        if is_timeout(error):
            partition = message.partition()
            self.timed_out.add(NO_PARTITION if partition is None else partition)
        self._complain(error_text(error))

    def refuse(self, reason: str) -> None:
        """For what never became a record on its way."""
        self.refused += 1
        self._complain(reason)

    def break_off(self, reason: str) -> None:
        """Whatever follows in the input is not read, and nobody knows how much it is."""
        self.broken_off = True
        self.last_error = reason
        self._say(f"error: {reason}; nothing from there on was read")

    def _complain(self, reason: str) -> None:
        self.last_error = reason
        if self.failed <= COMPLAINTS_MAX:
            self._say(f"error: {reason}")
