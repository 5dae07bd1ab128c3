"""Effects that the machine of the quorum asks its shell for.

The shell performs them strictly in order: an effect waits until the one before is done. An effect
without room on the disk is tried again, and the later ones wait for it. SyncLog and InstallSnapshot
are done when they have begun; their ends come back as events. Within a step the order is: persist,
change the log, sync, notify, send, reply.
"""

from typing import NamedTuple

from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import VoterEndpoint
from penstock.wire.primitives import Buffer
from penstock.wire.records.quorum import KRaftVersionRecord, LeaderChangeMessage, VotersRecord

ControlMessage = LeaderChangeMessage | KRaftVersionRecord | VotersRecord


class PersistElection(NamedTuple):
    """Write epoch, leader and vote. Done when they are durable."""

    state: QuorumState


class TruncateLog(NamedTuple):
    """Drop all records from `offset` on."""

    offset: int


class AppendBatches(NamedTuple):
    """Append whole batches that carry their offsets and epochs."""

    data: Buffer


class AppendControl(NamedTuple):
    """Append one control batch with these messages, sealed with the present time."""

    base_offset: int
    epoch: int
    messages: tuple[ControlMessage, ...]


class CutLog(NamedTuple):
    """Drop records below `start_offset`, and the snapshots `forgotten`."""

    start_offset: int
    forgotten: tuple[MetadataSnapshotId, ...]


class StoreSlice(NamedTuple):
    """Write a part of a downloaded snapshot; position 0 begins the download again."""

    snapshot_id: MetadataSnapshotId
    position: int
    data: Buffer


class InstallSnapshot(NamedTuple):
    """Make a downloaded snapshot durable, then begin the log again behind it.

    The answer is SnapshotInstalled or SnapshotRejected.
    """

    snapshot_id: MetadataSnapshotId


class DropDownload(NamedTuple):
    """Remove the part of a snapshot that was downloaded."""

    snapshot_id: MetadataSnapshotId


class SyncLog(NamedTuple):
    """Sync all that was appended so far; the answer is LogSynced. One sync runs at a time."""


class HighWatermarkMoved(NamedTuple):
    """All records below `offset` are committed."""

    offset: int


class LeadershipGained(NamedTuple):
    """This node leads. The controller is active when it has replayed past `start_offset`."""

    epoch: int
    start_offset: int


class LeadershipLost(NamedTuple):
    epoch: int


class LeaderChanged(NamedTuple):
    """The leader of an epoch is known, or (-1) is not known."""

    epoch: int
    leader_id: int


class SendRequest(NamedTuple):
    """Send a request; the answer is AnswerArrived or RequestFailed.

    A negative `node_id` is an address of controller.quorum.bootstrap.servers.
    """

    request_id: int
    node_id: int
    endpoint: VoterEndpoint | None
    request: QuorumRequest


class LogRange(NamedTuple):
    """Whole batches from `offset` on, at least one, of at most `bytes_max`."""

    offset: int
    bytes_max: int


class SnapshotRange(NamedTuple):
    """Bytes of a snapshot."""

    snapshot_id: MetadataSnapshotId
    position: int
    bytes_max: int


class SendReply(NamedTuple):
    """Answer a request. The shell reads `records` and puts them into the response."""

    reply_to: int
    response: QuorumResponse
    records: LogRange | SnapshotRange | None = None


QuorumEffect = (
    PersistElection
    | TruncateLog
    | AppendBatches
    | AppendControl
    | CutLog
    | StoreSlice
    | InstallSnapshot
    | DropDownload
    | SyncLog
    | HighWatermarkMoved
    | LeadershipGained
    | LeadershipLost
    | LeaderChanged
    | SendRequest
    | SendReply
)

_ORDER: dict[type[QuorumEffect], int] = {
    PersistElection: 0,
    TruncateLog: 1,
    AppendBatches: 1,
    AppendControl: 1,
    CutLog: 1,
    StoreSlice: 1,
    InstallSnapshot: 1,
    DropDownload: 1,
    SyncLog: 2,
    HighWatermarkMoved: 3,
    LeadershipGained: 3,
    LeadershipLost: 3,
    LeaderChanged: 3,
    SendRequest: 4,
    SendReply: 5,
}


def in_order(effects: list[QuorumEffect]) -> list[QuorumEffect]:
    """Return the effects of one step in the order of their kinds; keep the last of the states."""
    if len(effects) < 2:
        return effects
    effects.sort(key=lambda effect: _ORDER[type(effect)])
    states = sum(1 for effect in effects if type(effect) is PersistElection)
    return effects[states - 1 :] if states > 1 else effects
