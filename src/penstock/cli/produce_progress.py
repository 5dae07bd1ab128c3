"""How far a long `penstock produce` is, in one line at the bottom of a terminal."""

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from penstock.cli.output import note
from penstock.cli.progress_bar import (
    DRAW_SECONDS,
    QUIET_SECONDS,
    BarredStream,
    bar,
    bytes_text,
    seconds_text,
)


class Progress:
    """Draws nothing on what is no terminal, and nothing for what is done in a moment."""

    def __init__(
        self,
        stream: TextIO,
        sizes_bytes: Sequence[int | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sizes_bytes` of the inputs; None where nobody knows how much will come."""
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
        """Something for people, not into the line."""
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
