"""The quorum as its leader describes it: the end of each replica's log, and its last contacts."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.raft.leadership import drop_silent_observers
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.roles import LeaderRole, ReplicaProgress
from penstock.raft.voters import VoterEndpoint, Voters

NO_TIME = -1


class ReplicaStatus(NamedTuple):
    """A replica in DescribeQuorum. Times are on the wall clock, -1 before the first fetch."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class LeaderDescription(NamedTuple):
    """The answer of a leader; the watermark is -1 before its epoch has one."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaStatus, ...]
    observers: tuple[ReplicaStatus, ...]


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The quorum, as one node sees it. `led` is what only the leader knows."""

    leader_id: int
    epoch: int
    high_watermark: int
    end_offset: int
    durable_offset: int  # committed, and synced on this node
    voters: Voters
    kraft_version: int
    leader_endpoint: VoterEndpoint | None
    led: LeaderDescription | None
    state: str  # as Kafka's metric current-state has it


def view_quorum(replica: RaftReplica, now_ms: float, wall_ms: int) -> QuorumView:
    """Return the quorum as this replica sees it; offsets are 0 before they are known."""
    committed = max(0, replica.high_watermark)
    role = type(replica.role).__name__.removesuffix("Role").lower()
    is_observer = role in ("follower", "unattached") and not replica.is_voter
    return QuorumView(
        leader_id=replica.leader_id,
        epoch=replica.epoch,
        high_watermark=committed,
        end_offset=replica.log.end_offset,
        durable_offset=min(committed, replica.log.synced_offset),
        voters=replica.history.latest,
        kraft_version=replica.history.kraft_version,
        leader_endpoint=replica.endpoint_of(replica.leader_id),
        led=describe_quorum(replica, now_ms, wall_ms),
        state="observer" if is_observer else role,
    )


def describe_quorum(replica: RaftReplica, now_ms: float, wall_ms: int) -> LeaderDescription | None:
    """Return the quorum at a time on both clocks; None on a replica that does not lead."""
    role = replica.role
    if not isinstance(role, LeaderRole):
        return None
    drop_silent_observers(role, now_ms)

    def wall(at_ms: float) -> int:
        return NO_TIME if at_ms < 0 else wall_ms - round(now_ms - at_ms)

    def status(progress: ReplicaProgress) -> ReplicaStatus:
        if progress.key.node_id == replica.me.node_id:
            return ReplicaStatus(progress.key, replica.log.end_offset, wall_ms, wall_ms)
        return ReplicaStatus(
            progress.key,
            progress.end_offset,
            wall(progress.last_fetch_ms),
            wall(progress.caught_up_ms),
        )

    return LeaderDescription(
        replica.leader_id,
        replica.epoch,
        role.high_watermark,
        tuple(status(each) for each in role.voters.values()),
        tuple(status(each) for each in role.observers.values()),
    )
