"""A text stream to a pipe or a terminal that never makes the writer wait.

A node logs on its loop. A paused reader of standard error must not stop that loop.
"""

import fcntl
import os
import stat
from contextlib import suppress
from typing import TextIO

PIPE_BYTES = 1024 * 1024


class UnblockedStream:
    """A stream that drops and counts texts without room. Files are written as before."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _reopen(stream)
        self._rest = b""  # of a text that was written in part
        self._dropped = 0

    def write(self, text: str) -> int:
        if self._descriptor is None:
            return self._stream.write(text)
        self.flush()
        if self._dropped:
            dropped = f"warning: {self._dropped} log lines are lost: their reader was too slow\n"
            data = f"{dropped}{text}".encode(errors="backslashreplace")
        else:
            data = text.encode(errors="backslashreplace")
        if self._rest or not (written := self._try(data)):
            self._dropped += 1
        else:
            self._dropped, self._rest = 0, data[written:]
        return len(text)

    def flush(self) -> None:
        if self._descriptor is None:
            self._stream.flush()
        elif self._rest:
            self._rest = self._rest[self._try(self._rest) :]

    def isatty(self) -> bool:
        return self._stream.isatty()

    def _try(self, data: bytes) -> int:
        """Return how many bytes had room."""
        assert self._descriptor is not None, "only pipes and terminals"
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            return 0


def _reopen(stream: TextIO) -> int | None:
    """Return a descriptor without waits, None for a stream that is no pipe or terminal. Other
    processes share the stream's own descriptor, so that one stays as it is."""
    with suppress(OSError):
        number = stream.fileno()
        if not (stat.S_ISFIFO(os.fstat(number).st_mode) or os.isatty(number)):
            return None
        stream.flush()
        found = os.open(f"/dev/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        with suppress(OSError, AttributeError):  # a terminal, or a system without the call
            fcntl.fcntl(found, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return found
    return None
