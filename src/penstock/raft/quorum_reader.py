"""Reading of the metadata log: all records to replay, and the quorum's own records.

The checksum of each batch is compared: an image of rotten records would differ from all others.
"""

from collections.abc import Callable, Iterator
from typing import Any

from penstock.raft.control import read_control
from penstock.raft.errors import QuorumFilesCorrupt
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
    CorruptBatch,
    Header,
    batch_headers,
    checksum_holds,
    read_records,
)

READ_SLICE_BYTES = 128 * 1024


class QuorumReader:
    """Reads all records to replay: first the snapshot in parts, then the log up to `upper()`.

    The parts of a snapshot have the end offset PART_OF_BATCH, but for the last. `path` is the
    directory of the log, for errors.
    """

    def __init__(
        self,
        log: MetadataLog,
        path: str,
        snapshot: Snapshot | None,
        decode: Callable[[bytes], Any],
        offset: int,
        upper: Callable[[], int],
    ) -> None:
        self._log = log
        self._path = path
        self._snapshot = snapshot
        self._position = 0  # in the values of the snapshot
        self._decode = decode
        self._offset = snapshot.id.end_offset if snapshot else offset
        self._upper = upper

    def next_slice(self) -> list[LogBatch] | None:
        """Return the next batches; None if a snapshot has replaced what was not read yet. Raise
        QuorumFilesCorrupt for a batch that is not as it was written."""
        if self._snapshot is not None:
            return [self._next_part(self._snapshot)]
        if self._offset < self._log.start_offset:
            return None
        slices: list[LogBatch] = []
        upper = self._upper()
        if self._offset >= upper:
            return slices
        for batch, header in _batches(
            self._log.read(self._offset, READ_SLICE_BYTES), self._path, self._offset
        ):
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


def read_voters(log: MetadataLog, path: str, offset: int, history: VoterHistory) -> int:
    """Add the voters in the log from `offset` on to a history; return the bytes that were read.

    Waits for the disk. Raise QuorumFilesCorrupt for a batch that is not as it was written.
    """
    size = 0
    while data := log.read_now(offset, READ_SLICE_BYTES):
        for batch, header in _batches(data, path, offset):
            offset = _end_offset(header)
            size += len(batch)
            if header[ATTRIBUTES] & CONTROL:
                history.add_all(header[BASE_OFFSET], map(read_control, read_records(batch)))
    return size


def _batches(data: bytes, path: str, offset: int) -> Iterator[tuple[memoryview, Header]]:
    """Yield the batches of a log from `offset` on; raise QuorumFilesCorrupt for a damaged one."""
    view = memoryview(data)
    end = 0
    try:
        for position, header in batch_headers(data):
            end = position + LENGTH_OVERHEAD + header[LENGTH]
            if not checksum_holds(view[position:end], header):
                raise CorruptBatch("the checksum of a batch differs")
            yield view[position:end], header
            offset = _end_offset(header)
        if data and not end:
            raise CorruptBatch("a batch has another length than before")
    except CorruptBatch as problem:
        raise QuorumFilesCorrupt(
            f"The metadata log in {path} is damaged at offset {offset}: {problem}. Nothing was "
            "changed. Repair the disk under it, or restore the directory as it was when the node "
            "stopped; an older copy may lack a vote."
        ) from problem


def _end_offset(header: Header) -> int:
    return header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
