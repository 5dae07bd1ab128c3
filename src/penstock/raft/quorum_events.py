"""Events that the machine of the quorum takes: one value per fact, produced by its shell."""

from typing import NamedTuple

from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import Voters
from penstock.wire.messages.k01_fetch import FetchRequest, FetchResponse
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse
from penstock.wire.messages.k53_begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from penstock.wire.messages.k54_end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

QuorumRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
)
QuorumResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
)


class RequestArrived(NamedTuple):
    """A peer asks. `reply_to` comes back in the reply."""

    reply_to: int
    request: QuorumRequest


class AnswerArrived(NamedTuple):
    """A peer has answered the request `request_id`."""

    request_id: int
    response: QuorumResponse


class RequestFailed(NamedTuple):
    """The connection of the request `request_id` broke, or was never made."""

    request_id: int


class TimePassed(NamedTuple):
    """The time `QuorumMachine.wake_up_ms` has come."""


class LeaderAppended(NamedTuple):
    """The shell of the leader has appended one sealed batch at the end of the log."""

    data: bytes


class LogSynced(NamedTuple):
    """The sync that SyncLog asked for has ended."""


class SnapshotWritten(NamedTuple):
    """A snapshot of this node's committed records is complete and durable."""

    snapshot_id: MetadataSnapshotId
    size_bytes: int


class SnapshotInstalled(NamedTuple):
    """A downloaded snapshot is durable, and the log begins again behind it."""

    snapshot_id: MetadataSnapshotId
    size_bytes: int
    kraft_version: int
    voters: Voters


class SnapshotRejected(NamedTuple):
    """A downloaded snapshot is not whole; the download was removed."""

    snapshot_id: MetadataSnapshotId


class ResignRequested(NamedTuple):
    """The controller of this node cannot go on as leader of `epoch`."""

    epoch: int


class ShutdownRequested(NamedTuple):
    """The node is about to stop: the leader resigns, and no election begins here."""


QuorumEvent = (
    RequestArrived
    | AnswerArrived
    | RequestFailed
    | TimePassed
    | LeaderAppended
    | LogSynced
    | SnapshotWritten
    | SnapshotInstalled
    | SnapshotRejected
    | ResignRequested
    | ShutdownRequested
)
