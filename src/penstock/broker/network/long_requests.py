"""A limit on the memory of long requests that are read and answered in slices.

A message takes many times the memory of its frame. A long frame enters with an estimate before its
reading begins. Frames up to 1 MB share one half of the limit, larger frames the other half: very
long requests hold up none of the ordinary ones. Beyond its half a request waits until others have
left. The smallest enters first, but each fourth time the oldest: none waits for ever. A request
beyond the half by itself runs alone in it.
"""

from collections.abc import Callable

from penstock.broker.network.frames import FramePool
from penstock.broker.request import ClientConnection
from penstock.broker.sliced_work import Slices

LONG_FRAME_BYTES = 64 * 1024  # shorter frames never wait
VERY_LONG_FRAME_BYTES = 1024 * 1024  # longer frames have a half of their own
# A Fetch of 100,000 partitions takes 18 times its frame, with its answer.
MEMORY_PER_FRAME_BYTE = 20
# Of queued.max.request.bytes, which the frames share.
PART_OF_REQUEST_BYTES = 4
OLDEST_ENTERS_EVERY = 4


class LongRequests:
    """All long requests of a node, those in progress and those that wait."""

    def __init__(self, bytes_max: int) -> None:
        self._ordinary = _MemoryShare(bytes_max // 2)
        self._very_long = _MemoryShare(bytes_max // 2)

    @property
    def estimated_bytes(self) -> int:
        return self._ordinary.estimated_bytes + self._very_long.estimated_bytes

    def wait_for_memory(
        self, frames: FramePool, connection: ClientConnection, frame_bytes: int, weight: int = 1
    ) -> Slices[None]:
        """Wait until other long requests leave memory for this one. The memory is counted until the
        connection is no longer held. A frame of `weight` takes that many times the usual memory.
        The frame is a copy: while the request waits, its bytes count as frame memory."""
        counted = weight * frame_bytes
        if counted <= LONG_FRAME_BYTES:
            return
        frames.count(frame_bytes)
        try:
            waited = yield from self.enter(counted)
        finally:
            frames.count(-frame_bytes)
        connection.long_frame_bytes = counted
        if waited and connection.peer.has_ended():
            connection.close()  # no peer is left for the answer
            yield None

    def enter(self, frame_bytes: int) -> Slices[bool]:
        """Count the memory of a frame until `leave`. Wait for the memory first; return whether the
        request has waited."""
        return self._share(frame_bytes).enter(MEMORY_PER_FRAME_BYTE * frame_bytes)

    def leave(self, frame_bytes: int) -> None:
        self._share(frame_bytes).leave(MEMORY_PER_FRAME_BYTE * frame_bytes)

    def _share(self, frame_bytes: int) -> "_MemoryShare":
        return self._very_long if frame_bytes > VERY_LONG_FRAME_BYTES else self._ordinary


class _WaitingRequest:
    """A request that waits, until it is counted and goes on."""

    __slots__ = ("counted", "go_on", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.counted = False
        self.go_on: Callable[[], None] | None = None


class _MemoryShare:
    """Requests that share a part of the memory."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: list[_WaitingRequest] = []  # in the order of arrival
        self._entered = 0  # requests that had waited
        self.estimated_bytes = 0

    def enter(self, size: int) -> Slices[bool]:
        if not self._waiting and self._fits(size):
            self.estimated_bytes += size
            return False
        waiting = _WaitingRequest(size)

        def wait(go_on: Callable[[], None]) -> None:
            waiting.go_on = go_on
            self._waiting.append(waiting)
            self._let_in()  # a small one may fit where those before it do not

        try:
            yield wait
        except GeneratorExit:  # the peer has gone
            if waiting.counted:
                self.leave(size)
            raise
        return True

    def _fits(self, size: int) -> bool:
        return not self.estimated_bytes or self.estimated_bytes + size <= self._bytes_max

    def leave(self, size: int) -> None:
        self.estimated_bytes -= size
        assert self.estimated_bytes >= 0, "only what has entered leaves"
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._fits((waiting := self._next()).size):
            self._waiting.remove(waiting)
            self._entered += 1
            waiting.counted = True
            self.estimated_bytes += waiting.size
            assert waiting.go_on is not None, "a request waits before it goes on"
            waiting.go_on()

    def _next(self) -> _WaitingRequest:
        if self._entered % OLDEST_ENTERS_EVERY == OLDEST_ENTERS_EVERY - 1:
            return self._waiting[0]
        return min(self._waiting, key=lambda each: each.size)
