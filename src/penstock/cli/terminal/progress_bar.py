"""Progress bars for a terminal, and texts of sizes and times.

Log lines go above a bar: all writes to the terminal go through `BarredStream`. Nothing is drawn
outside of a terminal.
"""

import time
from collections.abc import Callable
from typing import Protocol

BAR_WIDTH = 24
QUIET_SECONDS = 1.0  # work that takes less is not worth a bar
DRAW_SECONDS = 0.1  # between two drawings
SAY_SECONDS = 10.0  # between two lines, where there is no terminal
_CLEAR = "\r\x1b[K"


class ShownProgress(Protocol):
    """The progress of a node's background task."""

    @property
    def subject(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def note(self) -> str: ...


class TerminalStream(Protocol):
    """A text stream that may lead to a terminal."""

    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...


class BarredStream:
    """A text stream that keeps one line at the bottom."""

    def __init__(self, stream: TerminalStream) -> None:
        self._stream = stream
        self._bar = ""

    def write(self, text: str) -> int:
        if not self._bar:
            return self._stream.write(text)
        bar = f"{self._bar}" if text.endswith("\n") else ""
        self._stream.write(f"{_CLEAR}{text}{bar}")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def bar(self, text: str) -> None:
        """Draw a line at the bottom; an empty text removes the line."""
        if text or self._bar:
            self._bar = text
            self._stream.write(f"{_CLEAR}{text}")
            self._stream.flush()


class RecoveryBar:
    """Shows the progress of log recovery, if it takes longer than QUIET_SECONDS."""

    def __init__(
        self,
        stream: BarredStream,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a bar. Outside of a terminal, `say` gets a line every SAY_SECONDS instead."""
        self._stream = stream
        self._say = say
        self._clock = clock
        self._drawing = stream.isatty()
        self._began: float | None = None
        self._shown = 0.0

    def __call__(self, doing: ShownProgress) -> None:
        now = self._clock()
        if self._began is None:
            self._began = self._shown = now
        if doing.done >= doing.total:
            self._stream.bar("")
            return
        took = now - self._began
        if self._drawing and took >= QUIET_SECONDS and now - self._shown >= DRAW_SECONDS:
            self._shown = now
            self._stream.bar(recovery_line(doing, took))
        elif not self._drawing and now - self._shown >= SAY_SECONDS:
            self._shown = now
            self._say(recovery_line(doing, took, with_bar=False))


def recovery_line(doing: ShownProgress, took: float, *, with_bar: bool = True) -> str:
    left_seconds = took / max(1, doing.done) * (doing.total - doing.done)
    words = [
        "opening logs",
        bar(doing.done, doing.total) if with_bar else "",
        f"{doing.done:,} of {doing.total:,} partitions, {_scanned(doing.note)}",
    ]
    line = " ".join(word for word in words if word)
    return f"{line}, about {seconds_text(left_seconds)} left" if doing.done else line


def _scanned(note: str) -> str:
    """Return the note with its leading number of bytes as a size."""
    count, _, rest = note.partition(" ")
    return f"{bytes_text(int(count))} {rest.removeprefix('bytes ')}" if count.isdecimal() else note


def bar(done: int, total: int, width: int = BAR_WIDTH) -> str:
    filled = width * min(done, total) // total if total > 0 else 0
    return f"[{'#' * filled}{'.' * (width - filled)}]"


def bytes_text(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


def seconds_text(seconds: float) -> str:
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    minutes, whole = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"
