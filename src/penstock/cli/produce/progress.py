"""Progress line of `penstock produce`, and counts of its records."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from penstock.cli.connection.delivery_timeout import NO_PARTITION
from penstock.cli.connection.rdkafka import error_text, is_timeout
from penstock.cli.terminal.output import note
from penstock.cli.terminal.progress_bar import (
    DRAW_SECONDS,
    QUIET_SECONDS,
    BarredStream,
    bar,
    bytes_text,
    seconds_text,
)

if TYPE_CHECKING:
    from confluent_kafka import Message


class ProduceProgress:
    """Draws a line at the bottom of a terminal, if the command takes long enough."""

    def __init__(
        self,
        stream: TextIO,
        sizes_bytes: Sequence[int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin at zero bytes. `sizes_bytes` has the size of each input; None if the size is not
        known."""
        self._stream = BarredStream(stream)
        self._drawing = stream.isatty()
        known = [each for each in sizes_bytes if each is not None]
        self._total_bytes = sum(known) if len(known) == len(sizes_bytes) else None
        self._clock = clock
        self._began = clock()
        self._shown = self._began
        self.read_bytes = 0

    def show(self, records: int, waiting: int) -> None:
        if not self._drawing:
            return
        now = self._clock()
        took = now - self._began
        if took >= QUIET_SECONDS and now - self._shown >= DRAW_SECONDS:
            self._shown = now
            self._stream.bar(line(records, waiting, self.read_bytes, self._total_bytes, took))

    def note(self, text: str) -> None:
        """Print a note above the line."""
        self._stream.bar("")
        note(text)

    def end(self) -> None:
        self._stream.bar("")


def line(records: int, waiting: int, read_bytes: int, total_bytes: int | None, took: float) -> str:
    sent = max(0, records - waiting)
    said = f"{sent:,} records, {bytes_text(read_bytes)} read, {sent / took:,.0f} records/s"
    if not total_bytes:
        return said
    left_seconds = took / max(1, read_bytes) * max(0, total_bytes - read_bytes)
    return f"{bar(read_bytes, total_bytes)} {said}, about {seconds_text(left_seconds)} left"


# Complaints beyond this many are counted, not printed.
COMPLAINTS_MAX = 5


class Tally:
    """Counts records: accepted by the client, then written or undelivered; or rejected."""

    def __init__(self, say: Callable[[str], None] = note) -> None:
        self._say = say
        self.accepted = 0
        self.undelivered = 0
        self.rejected = 0
        self.broken_off = False  # the input was not read to its end
        self.last_error: str | None = None
        self.timed_out: set[int] = set()  # partitions whose records did not leave in time

    @property
    def failed(self) -> int:
        return self.undelivered + self.rejected

    @property
    def written(self) -> int:
        """Return the written records, once none is in flight."""
        return self.accepted - self.undelivered

    def delivery_failed(self, error: object, message: "Message") -> None:
        """Count an accepted record that was not written; called by the producer."""
        self.undelivered += 1
        if is_timeout(error):
            partition = message.partition()
            self.timed_out.add(NO_PARTITION if partition is None else partition)
        self._complain(error_text(error))

    def reject(self, reason: str) -> None:
        """Count input that the client did not accept."""
        self.rejected += 1
        self._complain(reason)

    def break_off(self, reason: str) -> None:
        """Record that the rest of the input is not read."""
        self.broken_off = True
        self.last_error = reason
        self._say(f"error: {reason}; nothing from there on was read")

    def _complain(self, reason: str) -> None:
        self.last_error = reason
        if self.failed <= COMPLAINTS_MAX:
            self._say(f"error: {reason}")
