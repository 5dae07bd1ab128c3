"""A hosted partition as the log under a coordinator: machine.protocols.ReplicatedLog."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.coordinator.batches import UnreadableKeyCallback, decode, encode
from penstock.coordinator.records import EndMarker
from penstock.errors import CorruptMessage, KafkaError
from penstock.machine.protocols import LogFollower, LogUnreadable
from penstock.wire.batch import (
    BASE_OFFSET,
    HEADER,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP,
    Header,
    batch_headers,
)
from penstock.wire.primitives import Malformed, UnencodableValue
from penstock.wire.records.coordinator import Family
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition
    from penstock.world import Clock

log = logging.getLogger("penstock.coordinators")

# Bytes decoded between two turns of the loop: a few milliseconds of work.
SLICE_BYTES = 32 * 1024


@dataclass(slots=True)  # hot path: a frozen one takes four times as long to make
class LoadedBatch:
    records: Sequence[Any]
    end_offset: int
    epoch: int
    timestamp_ms: int


class CoordinatorLog:
    """A partition under a coordinator. Appends at once, so that the machine knows the result."""

    def __init__(
        self, clock: "Clock", partition: "Partition", family: Family, compression: int
    ) -> None:
        self._clock = clock
        self._family = family
        self._compression = compression
        self._follower: LogFollower | None = None
        self._reported = -1
        self._unreadable_key_logged = False
        self.partition = partition
        self.epoch = partition.leader.epoch  # of the leadership that was last loaded for

    @property
    def end_offset(self) -> int:
        return self.partition.log.end_offset

    @property
    def committed_offset(self) -> int:
        return self.partition.leader.high_watermark

    def follow(self, follower: LogFollower) -> None:
        self._follower = follower
        self.partition.watchers[self] = None

    def unfollow(self) -> None:
        self.partition.watchers.pop(self, None)

    def partition_changed(self) -> None:
        """Tell the follower of a new high watermark."""
        committed = self.committed_offset
        if committed != self._reported and self._follower is not None:
            self._reported = committed
            self._follower.committed(committed)

    def append(self, records: Sequence[Any]) -> LoadedBatch:
        """Append one atomic batch: plain records, records of one transaction, or one marker."""
        now_ms = self._clock.wall_ms()
        partition = self.partition
        first = records[0]
        if isinstance(first, EndMarker):
            assert len(records) == 1, "a marker is a batch of its own"
            partition.append_marker(first, now_ms)
        else:
            try:
                # The log writes the offset in place: `bytes` would cost it a copy.
                batch = bytearray(encode(records, now_ms, self._compression))
            except (KafkaError, Malformed, UnencodableValue):
                raise
            except Exception as problem:  # nothing is written yet: only these records fail
                raise UnencodableValue(repr(problem)) from problem
            result = partition.append_own(batch, HEADER.unpack_from(batch), now_ms)
            if isinstance(result, KafkaError):
                raise result
        return LoadedBatch(records, self.end_offset, partition.leader.epoch, now_ms)

    def read(self) -> "CoordinatorReader":
        return CoordinatorReader(self.partition, self._family, self._pass_over)

    def _pass_over(self, offset: int, problem: Malformed) -> None:
        """Log the first record whose key cannot be read: no group or id is known to set aside."""
        if not self._unreadable_key_logged:
            self._unreadable_key_logged = True
            log.error(
                "%s has a key that cannot be read at offset %d (%s). The record is passed over, and"
                " so are further ones of this kind. Look at it with `penstock log dump`.",
                self.partition,
                offset,
                problem,
            )


class CoordinatorReader:
    """Reads a partition from its start to its end at the time the reading began."""

    def __init__(
        self, partition: "Partition", family: Family, unreadable_key: UnreadableKeyCallback
    ) -> None:
        self._partition = partition
        self._unreadable_key = unreadable_key
        self._log = partition.log
        self._family = family
        self._next = self._log.start_offset
        self._end = self._log.end_offset

    def next_slice(self) -> Sequence[LoadedBatch]:
        """Return the next batches, none at the end. May raise Cold; the position has not moved
        then."""
        if self._next >= self._end:
            return ()
        try:
            found = self._log.read(
                self._next, SLICE_BYTES, upper_offset=self._end, min_one_batch=True
            )
            if found.file is None:
                self._next = self._end  # compaction has taken everything up to the end
                return ()
            data = memoryview(found.file.read(found.position, found.size))
        except (CorruptMessage, DiskFailed) as problem:
            raise LogUnreadable(
                f"{self._partition} cannot be loaded at offset {self._next}: {problem}. What it"
                " coordinates is not served. Restore the partition from a copy."
            ) from problem
        loaded: list[LoadedBatch] = []
        for position, header in batch_headers(data):
            size = header[LENGTH] + LENGTH_OVERHEAD
            end_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
            records = self._decode(data[position : position + size], header)
            loaded.append(
                LoadedBatch(records, end_offset, header[LEADER_EPOCH], header[MAX_TIMESTAMP])
            )
            self._next = end_offset
        return loaded

    def _decode(self, batch: memoryview, header: Header) -> Sequence[Any]:
        try:
            return decode(self._family, batch, header, self._unreadable_key)
        except (Malformed, KafkaError) as problem:
            raise LogUnreadable(
                f"{self._partition} cannot be loaded: its batch at offset {header[BASE_OFFSET]} is"
                f" not understood ({problem}). What it coordinates is not served. Restore the"
                " partition from a copy."
            ) from problem
