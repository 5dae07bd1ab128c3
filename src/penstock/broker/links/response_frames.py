"""Responses cut out of the bytes of a peer. Each frame has memory of its own.

A large frame is received straight into its buffer. The buffer serves again for the next large
frame, unless the handler of the last one has kept a view of it.
"""

import struct
from collections.abc import Iterator

from penstock.wire.primitives import Malformed
from penstock.world import Buffer

RESPONSE_BYTES_MAX = 128 * 1024 * 1024
LARGE_BYTES = 64 * 1024  # smaller frames are copied

_SIZE = struct.Struct(">i")


class ResponseFrames:
    """The frames of one connection."""

    def __init__(self) -> None:
        self.room: memoryview | None = None  # for the rest of a large frame
        self._begun = b""  # of a frame that is not large, or whose size is not known
        self._buffer: bytearray | None = None
        self._size = 0
        self._filled = 0

    def received(self, data: memoryview) -> Iterator[Buffer]:
        """Yield the frames that are complete now. Raise Malformed for a size of no response."""
        view = memoryview(self._begun + data) if self._begun else data
        self._begun = b""
        position = 0
        while len(view) - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(view, position)
            if not _SIZE.size <= size <= RESPONSE_BYTES_MAX:
                raise Malformed(f"a frame of {size} bytes: no response of Kafka's")
            start = position + _SIZE.size
            if len(view) >= start + size:
                position = start + size
                yield bytes(view[start:position])
            elif size >= LARGE_BYTES:
                self._begin(size, view[start:])
                return
            else:
                break
        self._begun = bytes(view[position:])

    def _begin(self, size: int, arrived: memoryview) -> None:
        if self._buffer is None or len(self._buffer) < size or _is_in_use(self._buffer):
            self._buffer = bytearray(size)
        self._size, self._filled = size, len(arrived)
        self._buffer[: len(arrived)] = arrived
        self.room = memoryview(self._buffer)[self._filled : size]

    def filled(self, size: int) -> Buffer | None:
        """Note bytes that were received into `room`. Return the frame if it is complete."""
        assert self._buffer is not None, "there was room"
        self._filled += size
        if self._filled < self._size:
            self.room = memoryview(self._buffer)[self._filled : self._size]
            return None
        self.room = None
        return memoryview(self._buffer)[: self._size]


def _is_in_use(buffer: bytearray) -> bool:
    """Return whether a view of the buffer exists: its size cannot change then."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False
