"""The log of one simulated replica: batches as the process sees them, and what a start finds.

A truncation is durable before the next append. Appended batches are durable once they are synced: a
kill keeps all of them, a loss of power keeps the synced ones and some of the others. Starts and
high watermarks are found as their checkpoints have them.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from penstock.log.epochs import LeaderEpochs
from penstock.wire.batch import (
    BASE_OFFSET,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    Record,
    batch_headers,
    build_batch,
)


class ReplicatedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    data: bytes


def new_batch(base_offset: int, epoch: int, records: int, value: bytes) -> ReplicatedBatch:
    listed = [Record(base_offset + each, 0, None, value) for each in range(records)]
    data = build_batch(listed, base_offset=base_offset, leader_epoch=epoch)
    return ReplicatedBatch(base_offset, base_offset + records, epoch, data)


def batches_in(records: memoryview) -> list[ReplicatedBatch]:
    """Return the batches of an answer."""
    found = []
    for position, header in batch_headers(records):
        base_offset = header[BASE_OFFSET]
        data = bytes(records[position : position + header[LENGTH] + LENGTH_OVERHEAD])
        end_offset = base_offset + header[LAST_OFFSET_DELTA] + 1
        found.append(ReplicatedBatch(base_offset, end_offset, header[LEADER_EPOCH], data))
    return found


class SimReplicaLog:
    """Batches in a row (truncation_point.FollowerLog)."""

    def __init__(self) -> None:
        self.batches: list[ReplicatedBatch] = []
        self.epochs = LeaderEpochs()
        self.base_offset = 0  # of the first file
        self.start_offset = 0
        self.end_offset = 0
        self.synced_offset = 0
        self.stored_start = 0
        self.stored_watermark = 0

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_of(epoch, self.end_offset)

    def index_of(self, offset: int) -> int:
        """Return the index of the batch with an offset, or of the first one behind it."""
        return bisect_right(self.batches, offset, key=lambda batch: batch.end_offset)

    def batch_before(self, end_offset: int) -> ReplicatedBatch | None:
        """Return the batch that ends at `end_offset`."""
        index = self.index_of(end_offset) - 1
        if index >= 0 and self.batches[index].end_offset == end_offset:
            return self.batches[index]
        return None

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Return whole batches from `offset` on, at least one."""
        index = self.index_of(offset)
        parts: list[bytes] = []
        size = 0
        for batch in self.batches[index:]:
            size += len(batch.data)
            if parts and size > bytes_max:
                break
            parts.append(batch.data)
        return b"".join(parts)

    # -- changes

    def begin_epoch(self, epoch: int) -> None:
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, self.end_offset)

    def append(self, batch: ReplicatedBatch) -> None:
        assert batch.base_offset == self.end_offset, "batches follow each other"
        self.batches.append(batch)
        self.epochs.note(batch.epoch, batch.base_offset)
        self.end_offset = batch.end_offset

    def advance_start(self, offset: int) -> None:
        """Delete the records below `offset`, and the batches that have no others."""
        self.start_offset = offset
        del self.batches[: self.index_of(offset)]
        self.base_offset = self.batches[0].base_offset if self.batches else self.end_offset
        self.epochs.cut_start(offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the batches with records from `offset` on, and the epochs without batches."""
        if offset >= self.end_offset:
            self.epochs.cut_end(self.end_offset)
            return
        if offset <= self.base_offset or offset < self.start_offset:
            self.restart_at(offset)
            return
        del self.batches[self.index_of(offset) :]
        end_offset = self.batches[-1].end_offset if self.batches else self.base_offset
        self.end_offset = max(end_offset, self.start_offset)
        self.synced_offset = min(self.synced_offset, self.end_offset)
        self.epochs.cut_end(self.end_offset)

    def restart_at(self, offset: int) -> None:
        """Remove all batches; the empty log begins at `offset`."""
        self.batches.clear()
        self.epochs.clear()
        self.base_offset = self.start_offset = self.end_offset = self.synced_offset = offset
        self.stored_start = min(self.stored_start, offset)

    # -- ends of a process

    def checkpoint(self, high_watermark: int) -> None:
        self.stored_start = max(self.stored_start, self.start_offset)
        self.stored_watermark = high_watermark

    def reopen(self) -> None:
        """Find the log as a start does."""
        end_offset = self.batches[-1].end_offset if self.batches else self.base_offset
        if self.stored_start > end_offset:
            self.restart_at(self.stored_start)
            return
        self.end_offset = end_offset
        self.start_offset = max(self.stored_start, self.base_offset)
        self.synced_offset = min(self.synced_offset, end_offset)
        self.epochs.cut_end(end_offset)
        for batch in self.batches:
            self.epochs.note(batch.epoch, batch.base_offset)  # a lost start hid their beginning
        self.epochs.cut_start(self.start_offset)

    def lose_tail(self, random_below: Callable[[int], int]) -> None:
        """Lose some of the batches that are not synced."""
        synced = self.index_of(self.synced_offset)
        del self.batches[synced + random_below(len(self.batches) - synced + 1) :]
