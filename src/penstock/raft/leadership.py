"""The leader: progress of replicas, the high watermark, check-quorum and BeginQuorumEpoch.

Invariants: only synced offsets count, the leader's own too; the watermark moves past the first
batch of the epoch before anything older is committed (rule 5.4.2 of Raft), and never moves back.
"""

from penstock.raft.log_view import EpochEnd
from penstock.raft.quorum_messages import begin_epoch_request
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.roles import FOREVER, NEVER_MS, LeaderRole, ReplicaProgress

OBSERVER_SESSION_MS = 300_000
OBSERVERS_MAX = 10_000


def own_counted_offset(replica: RaftReplica) -> int:
    """Return the end of the leader's log as it counts for the majority."""
    return replica.log.synced_offset


def majority_offset(replica: RaftReplica, role: LeaderRole) -> int:
    """Return the largest offset that a majority of voters has; a leader outside has no vote."""
    own = role.voters.get(replica.me.node_id)
    if own is not None:
        own.end_offset = own_counted_offset(replica)
    ends = sorted((each.end_offset for each in role.voters.values()), reverse=True)
    return ends[len(ends) // 2]


def may_commit(start: EpochEnd, offset: int) -> bool:
    """Return whether a majority at `offset` commits, which takes a record of this epoch."""
    return offset > start.end_offset


def advance_high_watermark(replica: RaftReplica, role: LeaderRole) -> bool:
    """Move the high watermark to what a majority has; return whether it moved."""
    offset = majority_offset(replica, role)
    if not may_commit(role.start, offset) or offset <= role.high_watermark:
        return False
    role.high_watermark = offset
    replica.commit(offset)
    return True


def follow_voters(replica: RaftReplica, role: LeaderRole) -> None:
    """Take over a changed voter set: new voters keep the progress that they had as observers."""
    before = {**{each.key: each for each in role.voters.values()}, **role.observers}
    role.voters = {}
    for voter in replica.history.latest:
        key = ReplicaKey(voter.node_id, voter.directory_id)
        role.voters[voter.node_id] = before.pop(key, ReplicaProgress(key))
    role.observers = {key: each for key, each in before.items() if key != replica.key}
    role.begin_epoch_at_ms = NEVER_MS  # new voters hear of the epoch at once


def note_fetch(
    replica: RaftReplica, role: LeaderRole, key: ReplicaKey, offset: int, now_ms: float
) -> bool:
    """Note the end of a replica's log, by its fetch; return whether the watermark moved."""
    progress = _progress_of(role, key, now_ms)
    if progress is None:
        return False
    end_offset = replica.log.end_offset
    if offset >= end_offset:
        progress.caught_up_ms = now_ms
    elif 0 < progress.leader_end_offset <= offset:
        progress.caught_up_ms = max(progress.caught_up_ms, progress.last_fetch_ms)
    progress.leader_end_offset = end_offset
    progress.last_fetch_ms = now_ms
    progress.end_offset = offset
    note_contact(replica, role, key, now_ms)
    return role.voters.get(key.node_id) is progress and advance_high_watermark(replica, role)


def _progress_of(role: LeaderRole, key: ReplicaKey, now_ms: float) -> ReplicaProgress | None:
    voter = role.voters.get(key.node_id)
    if voter is not None and voter.key.names(key):
        return voter
    known = role.observers.get(key)
    if known is None:
        drop_silent_observers(role, now_ms)
        if len(role.observers) >= OBSERVERS_MAX:
            return None
        known = role.observers[key] = ReplicaProgress(key)
    return known


def drop_silent_observers(role: LeaderRole, now_ms: float) -> None:
    for key, each in list(role.observers.items()):
        if now_ms - each.last_fetch_ms >= OBSERVER_SESSION_MS:
            del role.observers[key]


def note_contact(replica: RaftReplica, role: LeaderRole, key: ReplicaKey, now_ms: float) -> None:
    """Count a Fetch or FetchSnapshot of a voter; a majority of them renews the leadership."""
    voter = role.voters.get(key.node_id)
    if voter is None or not voter.key.names(key) or key.node_id == replica.me.node_id:
        return
    if key.node_id not in role.fetched_voters:
        role.fetched_voters.append(key.node_id)
    needed = len(role.voters) // 2 + 1
    if replica.me.node_id in role.voters:
        needed -= 1
    if len(role.fetched_voters) >= needed:
        role.fetched_voters.clear()
        role.check_quorum_deadline_ms = now_ms + replica.check_quorum_ms


def check_quorum_deadline(role: LeaderRole) -> float:
    """Return when the leader gives up; the only voter never does."""
    return FOREVER if len(role.voters) == 1 else role.check_quorum_deadline_ms


def successors_of(replica: RaftReplica, role: LeaderRole) -> tuple[ReplicaKey, ...]:
    """Return the other voters, those with the longest log first."""
    others = [each for each in role.voters.values() if each.key.node_id != replica.me.node_id]
    others.sort(key=lambda each: (-each.end_offset, each.key))
    return tuple(each.key for each in others)


def poll_leader(replica: RaftReplica, role: LeaderRole, now_ms: float) -> bool:
    """Resign without a majority, announce the epoch; return whether the role changed."""
    if replica.shutting_down or now_ms >= check_quorum_deadline(role):
        replica.become_resigned(successors_of(replica, role), now_ms)
        return True
    if now_ms >= role.begin_epoch_at_ms:
        silence_ms = replica.settings.fetch_timeout_ms // 2
        for progress in role.voters.values():
            node_id = progress.key.node_id
            heard = progress.last_fetch_ms >= 0 and now_ms - progress.last_fetch_ms < silence_ms
            if node_id != replica.me.node_id and not heard and replica.requests.is_ready(node_id):
                replica.send(node_id, begin_epoch_request(replica, node_id), now_ms)
        is_alone = len(role.voters) == 1 and replica.me.node_id in role.voters
        role.begin_epoch_at_ms = FOREVER if is_alone else now_ms + silence_ms
    return False
