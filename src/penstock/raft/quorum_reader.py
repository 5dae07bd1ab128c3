"""Reading of the metadata log: all records to replay, and the quorum's own records."""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.raft.control import read_control
from penstock.raft.protocols import MetadataLog
from penstock.raft.snapshot import Snapshot
from penstock.raft.voter_history import VoterHistory
from penstock.raft.writing import LogBatch
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
    """Reads all records to replay: first the snapshot, then the log behind it."""

    def __init__(
        self, log: MetadataLog, snapshot: Snapshot | None, decode: Callable[[bytes], Any]
    ) -> None:
        self._log = log
        self._snapshot = snapshot
        self._decode = decode
        self._offset = snapshot.id.end_offset if snapshot else 0

    def next_slice(self) -> list[LogBatch]:
        if self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            records = [self._decode(value) for value in snapshot.values]
            end_offset, epoch = snapshot.id
            return [LogBatch(records, end_offset, epoch, snapshot.timestamp_ms)]
        slices = []
        for batch, header in _batches(self._log.read_now(self._offset, READ_SLICE_BYTES)):
            records = []
            if not header[ATTRIBUTES] & CONTROL:
                records = [self._decode(record.value or b"") for record in read_records(batch)]
            self._offset = _end_offset(header)
            slices.append(
                LogBatch(records, self._offset, header[LEADER_EPOCH], header[BASE_TIMESTAMP])
            )
        return slices


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
