"""Reading of the metadata log: all records to replay, and the quorum's own records."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.raft.control import read_control
from penstock.raft.protocols import MetadataLog
from penstock.raft.snapshot import RECORDS_PER_SLICE, Snapshot
from penstock.raft.voter_history import VoterHistory
from penstock.raft.writing import PART_OF_BATCH, LogBatch
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    Header,
    batch_headers,
    read_records,
)

READ_SLICE_BYTES = 128 * 1024


class QuorumReader:
    """Reads all records to replay: first the snapshot in parts, then the log up to `upper()`.

    The parts of a snapshot have the end offset PART_OF_BATCH, but for the last.
    """

    def __init__(
        self,
        log: MetadataLog,
        snapshot: Snapshot | None,
        decode: Callable[[bytes], Any],
        offset: int,
        upper: Callable[[], int],
    ) -> None:
        self._log = log
        self._snapshot = snapshot
        self._position = 0  # in the values of the snapshot
        self._decode = decode
        self._offset = snapshot.id.end_offset if snapshot else offset
        self._upper = upper

    def next_slice(self) -> list[LogBatch] | None:
        """Return the next batches; None if a snapshot has replaced what was not read yet."""
        if self._snapshot is not None:
            return [self._next_part(self._snapshot)]
        if self._offset < self._log.start_offset:
            return None
        slices: list[LogBatch] = []
        upper = self._upper()
        if self._offset >= upper:
            return slices
        for batch, header in _batches(self._log.read(self._offset, READ_SLICE_BYTES)):
            end_offset = _end_offset(header)
            if end_offset > upper:
                break
            records = []
            if not header[ATTRIBUTES] & CONTROL:
                records = [self._decode(record.value or b"") for record in read_records(batch)]
            self._offset = end_offset
            slices.append(
                LogBatch(records, end_offset, header[LEADER_EPOCH], header[BASE_TIMESTAMP])
            )
        return slices

    def _next_part(self, snapshot: Snapshot) -> LogBatch:
        first, self._position = self._position, self._position + RECORDS_PER_SLICE
        records = [self._decode(value) for value in snapshot.values[first : self._position]]
        end_offset, epoch = snapshot.id
        if self._position < len(snapshot.values):
            end_offset = PART_OF_BATCH
        else:
            self._snapshot = None
        return LogBatch(records, end_offset, epoch, snapshot.timestamp_ms)


def read_voters(log: MetadataLog, offset: int, history: VoterHistory) -> int:
    """Add the voters in the log from `offset` on to a history; return the bytes that were read.

    Waits for the disk.
    """
    size = 0
    while data := log.read_now(offset, READ_SLICE_BYTES):
        for batch, header in _batches(data):
            offset = _end_offset(header)
            size += len(batch)
            if header[ATTRIBUTES] & CONTROL:
                history.add_all(header[BASE_OFFSET], map(read_control, read_records(batch)))
    return size


def _batches(data: bytes) -> Iterator[tuple[memoryview, Header]]:
    view = memoryview(data)
    for position, header in batch_headers(data):
        yield view[position : position + LENGTH_OVERHEAD + header[LENGTH]], header


def _end_offset(header: Header) -> int:
    return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
