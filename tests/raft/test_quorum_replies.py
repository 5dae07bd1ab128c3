"""Replies of the quorum whose bytes are read in first, and may be gone by then."""

from typing import Any, cast

from penstock.errors import OffsetOutOfRange, SnapshotNotFound
from penstock.raft.protocols import MetadataLog, QuorumFiles
from penstock.raft.quorum_effects import LogRange, SendReply, SnapshotRange
from penstock.raft.quorum_events import QuorumResponse
from penstock.raft.quorum_replies import QuorumReplies
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.wire.messages.k01_fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.wire.messages.k59_fetch_snapshot import (
    FetchSnapshotResponse,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from penstock.world import Cold, Done, File

ID = MetadataSnapshotId(5, 1)


class ColdFile:
    """A file whose bytes are never in memory."""

    path = "cold"

    def __init__(self) -> None:
        self.waiting: list[Done] = []

    def warm(self, _position: int, _size: int, done: Done) -> None:
        self.waiting.append(done)


class ColdStorage:
    """A log and snapshots on a cold file, which are gone after the first read."""

    def __init__(self, gone: Exception) -> None:
        self.file = ColdFile()
        self._failures = [Cold(cast("File", self.file), 0, 10), gone]

    def read(self, _offset: int, _size_max: int) -> bytes:
        raise self._failures.pop(0)

    def read_slice(self, _id: MetadataSnapshotId, _position: int, _size_max: int) -> bytes:
        raise self._failures.pop(0)


def reply_of(storage: ColdStorage, response: QuorumResponse, records: Any) -> Any:
    """Return the reply that leaves after the bytes were read in."""
    replies: list[QuorumResponse] = []
    log, files = cast("MetadataLog", storage), cast("QuorumFiles", storage)
    parked = QuorumReplies(files, lambda: log, lambda _epoch: True)
    parked.answer(SendReply(parked.park(replies.append), response, records))
    assert replies == []
    storage.file.waiting.pop()(None)
    return replies.pop()


def test_records_that_a_snapshot_has_replaced_are_left_out() -> None:
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])])
    storage = ColdStorage(OffsetOutOfRange("the log begins later"))
    partition = reply_of(storage, response, LogRange(3, 100)).responses[0].partitions[0]
    assert (partition.error_code, partition.records) == (0, None)


def test_a_snapshot_that_was_removed_is_not_found() -> None:
    response = FetchSnapshotResponse(
        topics=[ResponseTopicSnapshot(partitions=[ResponsePartitionSnapshot()])]
    )
    storage = ColdStorage(FileNotFoundError("removed"))
    partition = reply_of(storage, response, SnapshotRange(ID, 0, 100)).topics[0].partitions[0]
    assert partition.error_code == SnapshotNotFound.code
