"""Snapshots: all records that make the state at one offset, as a sequence of batches.

A snapshot begins with a SnapshotHeader and the quorum's own records. A SnapshotFooter ends it:
bytes without a footer are no snapshot. Reads no file: broker/metadata/snapshot_files.py does.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from penstock.raft.control import control_record, read_control
from penstock.raft.voters import Voters, from_record, to_record
from penstock.wire.batch import (
    ATTRIBUTES,
    CONTROL,
    LENGTH,
    LENGTH_OVERHEAD,
    Record,
    batch_headers,
    build_batch,
    checksum_holds,
    read_records,
)
from penstock.wire.primitives import Malformed
from penstock.wire.records.quorum import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)

# About 5 ms of work: small enough to leave the loop free between two slices.
RECORDS_PER_SLICE = 400


class MetadataSnapshotId(NamedTuple):
    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class Snapshot(NamedTuple):
    """The content of a snapshot; `values` are the records of the state, as bytes."""

    id: MetadataSnapshotId
    timestamp_ms: int
    kraft_version: int
    voters: Voters
    values: Sequence[bytes]


def parse_snapshot(data: bytes, snapshot_id: MetadataSnapshotId) -> Snapshot:
    """Return the snapshot that these bytes hold; raise Malformed if a part is missing or
    invalid."""
    view = memoryview(data)
    timestamp_ms, kraft_version = 0, 0
    voters: Voters = ()
    values: list[bytes] = []
    header_seen = footer_seen = False
    end = 0
    for position, header in batch_headers(data):
        end = position + LENGTH_OVERHEAD + header[LENGTH]
        batch = view[position:end]
        if not checksum_holds(batch, header):
            raise Malformed(f"the batch at byte {position} fails its checksum")
        if footer_seen:
            raise Malformed("records follow the footer")
        if not header[ATTRIBUTES] & CONTROL:
            values += [record.value or b"" for record in read_records(batch)]
            continue
        for record in read_records(batch):
            message = read_control(record)
            match message:
                case SnapshotHeaderRecord():
                    header_seen = True
                    timestamp_ms = message.last_contained_log_timestamp
                case SnapshotFooterRecord():
                    footer_seen = True
                case KRaftVersionRecord():
                    kraft_version = message.kraft_version
                case VotersRecord():
                    voters = from_record(message)
    if end != len(data):
        raise Malformed(f"{len(data) - end} bytes follow the last whole batch")
    if not header_seen or not footer_seen:
        raise Malformed("the header or the footer is missing")
    return Snapshot(snapshot_id, timestamp_ms, kraft_version, voters, values)


class _Batches:
    """Batches of a snapshot one after the other; offsets count from 0."""

    def __init__(self, epoch: int, now_ms: int) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        self._next_offset = 0

    def control(self, messages: Sequence[Any]) -> bytes:
        records = [
            control_record(self._next_offset + index, self._now_ms, message)
            for index, message in enumerate(messages)
        ]
        return self._build(records, control=True)

    def values(self, values: Sequence[bytes]) -> bytes:
        records = [
            Record(self._next_offset + index, self._now_ms, None, value)
            for index, value in enumerate(values)
        ]
        return self._build(records, control=False)

    def _build(self, records: list[Record], *, control: bool) -> bytes:
        base_offset = self._next_offset
        self._next_offset += len(records)
        return build_batch(
            records, base_offset=base_offset, leader_epoch=self._epoch, control=control
        )


def snapshot_batches(
    snapshot_id: MetadataSnapshotId,
    values: Iterator[bytes],
    *,
    timestamp_ms: int,
    now_ms: int,
    kraft_version: int,
    voters: Voters,
    with_quorum_records: bool = True,
) -> Iterator[bytes]:
    """Yield a snapshot piece by piece. A piece is one batch, and one slice of work."""
    batches = _Batches(snapshot_id.epoch, now_ms)
    first: list[Any] = [SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)]
    if with_quorum_records and kraft_version > 0:
        first += [KRaftVersionRecord(kraft_version=kraft_version), to_record(voters)]
    yield batches.control(first)
    while chunk := list(islice(values, RECORDS_PER_SLICE)):
        yield batches.values(chunk)
    yield batches.control([SnapshotFooterRecord()])
