"""A limit on the memory of long requests that are read and answered in slices.

A message takes many times the memory of its frame. A long frame enters with an estimate before its
reading begins. Beyond the limit it waits until earlier requests have left. A request beyond the
limit by itself runs alone.
"""

from collections import deque
from collections.abc import Callable

from penstock.broker.sliced_work import Slices

LONG_FRAME_BYTES = 64 * 1024  # shorter frames never wait
# A Fetch of 100,000 partitions takes 18 times its frame, with its answer.
MEMORY_PER_FRAME_BYTE = 20
# Of queued.max.request.bytes, which the frames share.
PART_OF_REQUEST_BYTES = 4


class _WaitingRequest:
    """A request that waits, until it is counted and goes on."""

    __slots__ = ("counted", "go_on", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.counted = False
        self.go_on: Callable[[], None] | None = None


class LongRequests:
    """All long requests of a node, those in progress and those that wait."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[_WaitingRequest] = deque()
        self.estimated_bytes = 0

    def enter(self, size: int) -> Slices[None]:
        """Count `size` bytes until `leave`; wait for them first, in the order of arrival."""
        if not self._waiting and self._fits(size):
            self.estimated_bytes += size
            return
        waiting = _WaitingRequest(size)

        def wait(go_on: Callable[[], None]) -> None:
            waiting.go_on = go_on
            self._waiting.append(waiting)

        try:
            yield wait
        except GeneratorExit:  # the peer has gone
            if waiting.counted:
                self.leave(size)
            raise

    def _fits(self, size: int) -> bool:
        return not self.estimated_bytes or self.estimated_bytes + size <= self._bytes_max

    def leave(self, size: int) -> None:
        self.estimated_bytes -= size
        assert self.estimated_bytes >= 0, "only what has entered leaves"
        while self._waiting and self._fits(self._waiting[0].size):
            waiting = self._waiting.popleft()
            waiting.counted = True
            self.estimated_bytes += waiting.size
            assert waiting.go_on is not None, "a request waits before it goes on"
            waiting.go_on()
