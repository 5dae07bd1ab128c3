"""Memory for frames that did not arrive whole: pooled, and bounded for the whole node.

A claimed size is trusted only as the bytes come in. A buffer has at most four times the received
bytes, or the small first size; from 64 KB on it is one of the pool, which are all alike. Over the
node's limit frames wait for memory. One frame at a time may exceed the limit, so that frames under
way cannot block each other.
"""

from collections.abc import Callable, Hashable

from penstock.broker.settings import REQUEST_BYTES_MAX

FIRST_BYTES = 16 * 1024
GROWTH = 4
POOLED_BYTES = 2 * 1024 * 1024
POOLED_FROM_BYTES = POOLED_BYTES // 8  # frames below are not worth a buffer of the pool
POOLED_BUFFERS_MAX = 16
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")
_TLS = b"\x16\x03"


def other_protocol(size: int) -> str:
    """Return what a peer speaks whose first bytes are no size of a request; '' if unknown."""
    beginning = (size & 0xFFFFFFFF).to_bytes(4)
    if beginning.startswith(_TLS):
        return "TLS"
    return "HTTP" if beginning in _HTTP else ""


class FramePool:
    """Lends buffers to holders (connections)."""

    def __init__(self, bytes_max: int = REQUEST_BYTES_MAX) -> None:
        self._free: list[bytearray] = []
        self._ended: list[bytearray] = []
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._bytes_max = bytes_max
        self._exempt: Hashable | None = None  # the one holder that may exceed the limit
        self._lent_bytes = 0
        self._peak_bytes = 0  # lent at a time, since `fallen` was last asked

    @property
    def lent_bytes(self) -> int:
        return self._lent_bytes

    def count(self, size: int) -> None:
        """Count bytes that a request has copied as frame memory."""
        self._lent_bytes += size
        self._peak_bytes = max(self._peak_bytes, self._lent_bytes)

    def fallen(self) -> int:
        """Return by how much less is lent now than at most since the last call."""
        fallen = self._peak_bytes - self._lent_bytes
        self._peak_bytes = self._lent_bytes
        return fallen

    def first(self, size: int, arrived: int) -> bytearray:
        """Return the first buffer of a frame of `size` bytes. Near the limit, the buffer has only
        the received bytes, or the small first size."""
        near = self._lent_bytes + POOLED_BYTES > self._bytes_max
        wanted = min(size, max(FIRST_BYTES, arrived if near else GROWTH * arrived))
        if near:
            self.count(wanted)
            return bytearray(wanted)
        return self._lend(wanted, size)

    def grow(
        self, holder: Hashable, buffer: bytearray, size: int, retry: Callable[[], None]
    ) -> bytearray | None:
        """Return a larger buffer with the same content; None if the holder must wait for
        `retry`."""
        wanted = min(size, GROWTH * len(buffer))
        over = self._lent_bytes + wanted > self._bytes_max
        if over and self._exempt not in (None, holder):
            self._waiting[holder] = retry
            return None
        if over:
            self._exempt = holder
        larger = self._lend(wanted, size)
        larger[: len(buffer)] = buffer
        self.count(-len(buffer))
        return larger

    def _lend(self, wanted: int, size: int) -> bytearray:
        if wanted >= POOLED_FROM_BYTES and size <= POOLED_BYTES:
            buffer = self._free.pop() if self._free else bytearray(POOLED_BYTES)
        else:
            buffer = bytearray(wanted)
        self.count(len(buffer))
        return buffer

    @property
    def full(self) -> bool:
        return self._lent_bytes >= self._bytes_max

    @property
    def are_waiting(self) -> bool:
        """Return whether frames wait for memory."""
        return bool(self._waiting)

    def is_waiting(self, holder: Hashable) -> bool:
        return holder in self._waiting

    def give_back(self, holder: Hashable, buffer: bytearray) -> None:
        """Return a buffer to the pool at the end of the turn: views of it may be in use until
        then."""
        self._waiting.pop(holder, None)
        if self._exempt is holder:
            self._exempt = None
        self.count(-len(buffer))
        self._ended.append(buffer)

    def turn_ended(self) -> None:
        for buffer in self._ended:
            if len(buffer) == POOLED_BYTES and len(self._free) < POOLED_BUFFERS_MAX:
                self._free.append(buffer)
        self._ended.clear()
        for holder in list(self._waiting):
            if self._lent_bytes >= self._bytes_max and self._exempt is not None:
                return
            self._waiting.pop(holder)()
