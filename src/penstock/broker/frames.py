"""Memory for frames that did not arrive whole: pooled, and bounded for the whole node."""

from collections.abc import Callable

POOLED_BYTES = 2 * 1024 * 1024
POOLED_BUFFERS_MAX = 16
FIRST_BYTES_MAX = POOLED_BYTES  # a claim of more is believed only as the bytes come in
NODE_BYTES_MAX = 1024 * 1024 * 1024


class FramePool:
    """Lends buffers. Over the node's limit a borrower is told to wait."""

    def __init__(self, bytes_max: int = NODE_BYTES_MAX) -> None:
        self._free: list[bytearray] = []
        self._ended: list[bytearray] = []
        self._waiting: dict[Callable[[], None], int] = {}
        self._waiting_bytes = 0
        self._bytes_max = bytes_max
        self.lent_bytes = 0

    def has_room(self) -> bool:
        # Those who wait hold buffers too; counting them, they could wait for each other for ever.
        return self.lent_bytes - self._waiting_bytes < self._bytes_max

    def wait(self, call: Callable[[], None], holding: int) -> None:
        """Call once there is room for the `holding` bytes that the caller has."""
        self._waiting[call] = holding
        self._waiting_bytes += holding

    def is_waiting(self, call: Callable[[], None]) -> bool:
        return call in self._waiting

    def wait_no_more(self, call: Callable[[], None]) -> None:
        self._waiting_bytes -= self._waiting.pop(call, 0)

    def borrow(self, size: int) -> bytearray:
        if size > POOLED_BYTES // 8 and size <= POOLED_BYTES and self._free:
            buffer = self._free.pop()
        else:
            pooled = POOLED_BYTES // 8 < size <= POOLED_BYTES
            buffer = bytearray(POOLED_BYTES if pooled else size)
        self.lent_bytes += len(buffer)
        return buffer

    def grow(self, buffer: bytearray, size: int) -> bytearray:
        """A larger buffer with the same beginning."""
        larger = bytearray(size)
        larger[: len(buffer)] = buffer
        self.lent_bytes += size - len(buffer)
        return larger

    def give_back(self, buffer: bytearray) -> None:
        """Views of it may be in use until the turn ends, so it is lent again only after that."""
        self.lent_bytes -= len(buffer)
        self._ended.append(buffer)

    def turn_ended(self) -> None:
        for buffer in self._ended:
            if len(buffer) == POOLED_BYTES and len(self._free) < POOLED_BUFFERS_MAX:
                self._free.append(buffer)
        self._ended.clear()
        while self._waiting and self.has_room():
            call = next(iter(self._waiting))
            self.wait_no_more(call)
            call()
