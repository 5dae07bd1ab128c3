"""Writes the segment that replaces a group: `.cleaned` files, complete after `finish`.

Index entries equal those of appending the batches one by one (segment.ActiveSegment.note), but are
computed for many batches at a time.
"""

from contextlib import suppress

import numpy as np

from penstock.log.compaction.chunks import Table
from penstock.log.compaction.order import CompactionRejected, Order, Segment, SegmentGroup
from penstock.log.directory import CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX, segment_file
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from penstock.log.transactions import Aborted, pack_aborted
from penstock.world import Buffer, Disk, DiskFailed, DiskFull

# Positions in an index have 32 bits.
SEGMENT_BYTES_MAX = 2**31 - 1
# A sync of a gigabyte at once would delay the syncs of all other logs.
SYNC_EVERY_BYTES = 32 * 1024 * 1024
# The columns of the batch table of `write`.
BATCH_SIZE, BATCH_LAST, BATCH_TIME = range(3)
BATCH_FIELDS = 3


class CleanedSegment:
    """A segment that grows by `write` and ends with `finish` or `discard`."""

    def __init__(self, disk: Disk, order: Order, group: tuple[Segment, ...]) -> None:
        self._disk = disk
        self._order = order
        self._group = group
        self.base_offset = group[0].base_offset
        self._file = disk.open(self._path(LOG), create=True)
        self.size = 0
        self._synced_bytes = 0
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._indexed_position = 0
        self._largest_timestamp = -1
        self._largest_offset = self.base_offset

    def _path(self, suffix: str) -> str:
        return segment_file(self._order.directory, self.base_offset, suffix) + CLEANED

    def write(self, data: Buffer, batches: Table) -> None:
        """Append whole batches, with a row about each."""
        if self.size + len(data) > SEGMENT_BYTES_MAX:
            raise CompactionRejected(
                f"{self._disk.root}/{self._path(LOG)} grows beyond {SEGMENT_BYTES_MAX} bytes,"
                " because of delete horizons: lower segment.bytes"
            )
        self._check_room(len(data))
        self._file.append((data,))
        self._note(batches)
        self.size += len(data)
        if self.size - self._synced_bytes >= SYNC_EVERY_BYTES:
            self._file.sync_now()
            self._synced_bytes = self.size

    def _check_room(self, size: int) -> None:
        """Check before every write, because other writers use the disk too."""
        free_bytes, kept = self._disk.free_bytes(), self._order.free_bytes_min
        if free_bytes - size < kept:
            raise DiskFull(
                f"{free_bytes} bytes are free in {self._disk.root}, of which {kept} are not for"
                " compaction (log.disk.reserve.bytes)"
            )

    def _note(self, batches: Table) -> None:
        ends = self.size + np.cumsum(batches[:, BATCH_SIZE])
        starts = ends - batches[:, BATCH_SIZE]
        times = np.maximum.accumulate(np.maximum(batches[:, BATCH_TIME], self._largest_timestamp))
        before = np.concatenate(([self._largest_timestamp], times[:-1]))
        # The batch with the largest timestamp so far; -1 for an earlier write.
        largest = np.maximum.accumulate(np.where(times > before, np.arange(len(times)), -1))
        interval, entries_max = self._order.index_interval_bytes, self._order.index_bytes_max
        while True:
            row = int(np.searchsorted(starts, self._indexed_position + interval, side="right"))
            if row == len(starts):
                break
            self._indexed_position = int(starts[row])
            if (len(self._offsets) + 1) * OFFSET_ENTRY.size <= entries_max:
                last = int(batches[row, BATCH_LAST])
                self._offsets.add(last - self.base_offset, self._indexed_position)
            # Keep one entry for `finish`.
            if (len(self._times) + 2) * TIME_ENTRY.size <= entries_max:
                self._note_time(batches, int(times[row]), int(largest[row]))
        self._remember(batches, int(times[-1]), int(largest[-1]))

    def _note_time(self, batches: Table, timestamp: int, row: int) -> None:
        offset = self._largest_offset if row < 0 else int(batches[row, BATCH_LAST])
        self._times.add(timestamp, offset - self.base_offset)

    def _remember(self, batches: Table, timestamp: int, row: int) -> None:
        if row >= 0:
            self._largest_timestamp = timestamp
            self._largest_offset = int(batches[row, BATCH_LAST])

    def finish(self, aborted: list[Aborted]) -> SegmentGroup:
        """Write the indexes and sync all files."""
        if self._largest_timestamp >= 0:
            self._times.add(self._largest_timestamp, self._largest_offset - self.base_offset)
        self._put(INDEX, self._offsets.to_bytes())
        self._put(TIME_INDEX, bytes(self._times.data))
        if aborted:
            self._put(TXN_INDEX, b"".join(map(pack_aborted, aborted)))
        self._file.sync_now()
        self._file.close()
        return SegmentGroup(
            old=tuple(segment.base_offset for segment in self._group),
            base_offset=self.base_offset,
            end_offset=self._group[-1].end_offset,
            size=self.size,
            largest_timestamp=self._largest_timestamp,
            largest_offset=self._largest_offset,
            has_aborted=bool(aborted),
        )

    def _put(self, suffix: str, data: bytes) -> None:
        self._check_room(len(data))
        file = self._disk.open(self._path(suffix), create=True)
        if data:
            file.append((data,))
        file.sync_now()
        file.close()

    def discard(self) -> None:
        """Remove the files of a cancelled segment. The next cleaning removes those that cannot be
        removed now."""
        self._file.close()
        for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
            with suppress(DiskFailed):
                self._disk.remove_now(self._path(suffix))


def remove_leftovers(disk: Disk, directory: str) -> None:
    """Remove the files of an earlier, incomplete cleaning."""
    for name in disk.list(directory):
        if name.endswith(CLEANED):
            disk.remove_now(f"{directory}/{name}")
