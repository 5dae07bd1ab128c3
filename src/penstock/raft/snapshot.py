"""Snapshots: all records that make the state at one offset, in a file of batches.

`OFFSET-EPOCH.checkpoint` begins with a SnapshotHeader (and the quorum's own records) and ends
with a SnapshotFooter; a file without its footer is not a snapshot. It is written under a name
that ends in `.part` and renamed when it is complete and synced.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from penstock.raft.control import control_record, read_control
from penstock.raft.errors import QuorumFilesCorrupt
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
from penstock.world import Disk, DiskFailed, Done, File

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
PART_SUFFIX = ".part"

# About 5 ms of work: small enough to leave the loop free between two slices.
RECORDS_PER_SLICE = 400


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class Snapshot(NamedTuple):
    """What was read from a snapshot; `values` are the state's records, still as bytes."""

    id: SnapshotId
    timestamp_ms: int
    kraft_version: int
    voters: Voters
    values: Sequence[bytes]


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """Complete snapshots by name, oldest first."""
    names = (_NAME.fullmatch(name) for name in disk.list(directory))
    return sorted(SnapshotId(int(name[1]), int(name[2])) for name in names if name)


def remove_parts_now(disk: Disk, directory: str) -> None:
    """Clear away what a crash left half written."""
    for name in disk.list(directory):
        if name.endswith(PART_SUFFIX) and _NAME.fullmatch(name.removesuffix(PART_SUFFIX)):
            disk.remove_now(f"{directory}/{name}")


def read_snapshot(disk: Disk, path: str, snapshot_id: SnapshotId) -> Snapshot:
    file = disk.open(path)
    try:
        data = file.read_now(0, file.size)
    finally:
        file.close()
    try:
        return _parse(data, snapshot_id)
    except Malformed as error:
        raise QuorumFilesCorrupt(
            f"{disk.root}/{path} is not a whole snapshot: {error}. Restore it from a copy, or "
            "remove it if an older snapshot and the log behind it are there."
        ) from error


def _parse(data: bytes, snapshot_id: SnapshotId) -> Snapshot:
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
    snapshot_id: SnapshotId,
    values: Iterator[bytes],
    *,
    timestamp_ms: int,
    now_ms: int,
    kraft_version: int,
    voters: Voters,
    with_quorum_records: bool = True,
) -> Iterator[bytes]:
    """The snapshot piece by piece; each piece is one batch, and one slice of work."""
    batches = _Batches(snapshot_id.epoch, now_ms)
    first: list[Any] = [SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)]
    if with_quorum_records and kraft_version > 0:
        first += [KRaftVersionRecord(kraft_version=kraft_version), to_record(voters)]
    yield batches.control(first)
    while chunk := list(islice(values, RECORDS_PER_SLICE)):
        yield batches.values(chunk)
    yield batches.control([SnapshotFooterRecord()])


class SnapshotWriting:
    """Writes one snapshot, a batch per turn of the loop, then syncs and renames it."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        batches: Iterator[bytes],
        *,
        soon: Callable[[Callable[[], None]], None],
        done: Done,
    ) -> None:
        self._disk = disk
        self._path = path
        self._batches = batches
        self._soon = soon
        self._done = done
        self._cancelled = False
        self._file: File | None = None

    def start(self) -> None:
        """An attempt that failed may have left its beginning; a file is only ever appended to."""
        self._disk.remove(self._path + PART_SUFFIX, self._cleared)

    def _cleared(self, failure: DiskFailed | None) -> None:
        if failure is not None:
            self._done(failure)
        else:
            self._soon(self._slice)

    def cancel(self) -> None:
        """Leave it unfinished; what was written is cleared away at the next start."""
        self._cancelled = True
        if self._file is not None:
            self._file.close()

    def _slice(self) -> None:
        if self._cancelled:
            return
        try:
            if self._file is None:
                self._file = self._disk.open(self._path + PART_SUFFIX, create=True)
            batch = next(self._batches, None)
            if batch is not None:
                self._file.append([batch])
        except DiskFailed as failure:
            if self._file is not None:
                self._file.close()
            self._done(failure)
            return
        if batch is None:
            self._file.sync(self._synced)
        else:
            self._soon(self._slice)

    def _synced(self, failure: DiskFailed | None) -> None:
        if self._cancelled:
            return
        assert self._file is not None, "it was open when the sync began"
        self._file.close()
        if failure is not None:
            self._done(failure)
        else:
            self._disk.rename(self._path + PART_SUFFIX, self._path, self._done)


def write_snapshot_now(disk: Disk, path: str, batches: Iterator[bytes]) -> None:
    """All at once, for a directory that is being formatted."""
    disk.replace_now(path, b"".join(batches))
