"""The metadata log as an observer sees it: the batches of each node, and the committed ones."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple
from zlib import crc32

from penstock.raft.protocols import MetadataLog
from penstock.wire.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    batch_headers,
)

READ_BYTES = 1 << 20


class BatchPrint(NamedTuple):
    """A batch by its offsets and a checksum of its bytes."""

    end_offset: int
    base_offset: int
    epoch: int
    checksum: int


class BatchHistory:
    """Batches in the order of their offsets, without gaps."""

    def __init__(self) -> None:
        self.batches: list[BatchPrint] = []

    @property
    def start_offset(self) -> int:
        return self.batches[0].base_offset if self.batches else 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def append(self, data: bytes) -> list[BatchPrint]:
        """Add whole batches; return them."""
        view = memoryview(data)
        added = [
            BatchPrint(
                header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1,
                header[BASE_OFFSET],
                header[LEADER_EPOCH],
                crc32(view[position : position + LENGTH_OVERHEAD + header[LENGTH]]),
            )
            for position, header in batch_headers(data)
        ]
        self.batches += added
        return added

    def truncate(self, offset: int) -> None:
        """Drop batches that end behind the offset."""
        del self.batches[bisect_right(self.batches, (offset, 1 << 62)) :]

    def between(self, begin: int, end: int) -> list[BatchPrint]:
        """Return the batches that end behind `begin` and not behind `end`."""
        first = bisect_right(self.batches, (begin, 1 << 62))
        last = bisect_right(self.batches, (end, 1 << 62))
        return self.batches[first:last]

    def ending_at(self, offset: int) -> BatchPrint | None:
        """Return the batch that ends at an offset."""
        index = bisect_left(self.batches, (offset,))
        if index < len(self.batches) and self.batches[index].end_offset == offset:
            return self.batches[index]
        return None


def read_history(log: MetadataLog) -> BatchHistory:
    """Return the batches of a log."""
    history = BatchHistory()
    offset = log.start_offset
    while data := log.read_now(offset, READ_BYTES):
        offset = history.append(data)[-1].end_offset
    return history
