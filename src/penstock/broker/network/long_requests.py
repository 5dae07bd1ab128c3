"""A limit on the memory of requests that are read and answered in slices.

A message takes many times the memory of its frame. A frame that is read in slices enters with an
estimate before its reading begins. Frames up to 64 KB, up to 1 MB and larger ones have a third of
the limit each: longer requests hold up none of the shorter ones. Beyond its third a request waits
until others have left. The smallest enters first, but each fourth time the oldest: none waits for
ever. A request beyond the third by itself runs alone in it.
"""

from collections.abc import Callable

from penstock.broker.network.frames import FramePool
from penstock.broker.request import ClientConnection
from penstock.broker.sliced_work import Slices
from penstock.wire.codec import SLICE_BYTES

LONG_FRAME_BYTES = 64 * 1024
VERY_LONG_FRAME_BYTES = 1024 * 1024
# A Fetch of 100,000 partitions takes 18 times its frame, with its answer.
MEMORY_PER_FRAME_BYTE = 20
# Of queued.max.request.bytes, which the frames share.
PART_OF_REQUEST_BYTES = 4
OLDEST_ENTERS_EVERY = 4


class LongRequests:
    """All requests of a node that are read in slices, those in progress and those that wait."""

    def __init__(self, bytes_max: int) -> None:
        self._short, self._long, self._very_long = (_MemoryShare(bytes_max // 3) for _ in range(3))

    @property
    def _shares(self) -> "tuple[_MemoryShare, ...]":
        return self._short, self._long, self._very_long

    @property
    def estimated_bytes(self) -> int:
        return sum(each.estimated_bytes for each in self._shares)

    @property
    def are_waiting(self) -> bool:
        """Return whether a request waits for the memory of others."""
        return any(each.are_waiting for each in self._shares)

    def fallen(self) -> int:
        """Return by how much less is estimated now than at most since the last call."""
        return sum(each.fallen() for each in self._shares)

    def wait_for_memory(
        self, frames: FramePool, connection: ClientConnection, frame_bytes: int, weight: int = 1
    ) -> Slices[None]:
        """Wait until other long requests leave memory for this one. The memory is counted until the
        connection is no longer held, and its peer has read a large answer. A frame of `weight`
        takes that many times the usual memory. The frame is a copy: while the request waits, its
        bytes count as frame memory."""
        counted = weight * frame_bytes
        if counted <= SLICE_BYTES:
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
        if frame_bytes > VERY_LONG_FRAME_BYTES:
            return self._very_long
        return self._long if frame_bytes > LONG_FRAME_BYTES else self._short


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
        self._peak_bytes = 0  # estimated at a time, since `fallen` was last asked
        self.estimated_bytes = 0

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def fallen(self) -> int:
        fallen = self._peak_bytes - self.estimated_bytes
        self._peak_bytes = self.estimated_bytes
        return fallen

    def _add(self, size: int) -> None:
        self.estimated_bytes += size
        self._peak_bytes = max(self._peak_bytes, self.estimated_bytes)

    def enter(self, size: int) -> Slices[bool]:
        if not self._waiting and self._fits(size):
            self._add(size)
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
            self._add(waiting.size)
            assert waiting.go_on is not None, "a request waits before it goes on"
            waiting.go_on()

    def _next(self) -> _WaitingRequest:
        if self._entered % OLDEST_ENTERS_EVERY == OLDEST_ENTERS_EVERY - 1:
            return self._waiting[0]
        return min(self._waiting, key=lambda each: each.size)
