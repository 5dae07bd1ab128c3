"""Fetch and FetchSnapshot at the leader.

A fetch without news is parked until records or a higher watermark arrive (KIP-1166), or its time
is over. The progress of a replica counts when its fetch arrives, never when a parked one ends.
"""

from penstock.errors import (
    InconsistentClusterId,
    InvalidRequest,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.raft.fetch_rules import judge_position
from penstock.raft.leadership import note_contact, note_fetch
from penstock.raft.log_view import BOOTSTRAP_SNAPSHOT
from penstock.raft.quorum_effects import LogRange, SendReply, SnapshotRange
from penstock.raft.quorum_messages import fetch_response, fetch_snapshot_response
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.request_rules import (
    is_metadata_topic,
    is_own_cluster,
    leader_request_error,
)
from penstock.raft.roles import LeaderRole, ParkedReplicaFetch
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.wire.messages import k01_fetch as fetch
from penstock.wire.messages import k59_fetch_snapshot as fetch_snapshot

PARKED_FETCHES_MAX = 10_000


def handle_fetch(
    replica: RaftReplica, reply_to: int, request: fetch.FetchRequest, now_ms: float
) -> None:
    if not is_own_cluster(replica, request.cluster_id):
        response = fetch.FetchResponse(error_code=InconsistentClusterId.code)
        replica.effects.append(SendReply(reply_to, response))
        return
    partition = _requested_partition(request)
    if partition is None:
        response = fetch.FetchResponse(error_code=InvalidRequest.code)
        replica.effects.append(SendReply(reply_to, response))
        return
    key = ReplicaKey(_replica_id(request), partition.replica_directory_id)
    error_code = _fetch_error(replica, request, partition)
    if not error_code and key.node_id == replica.me.node_id:
        error_code = UnknownServerError.code  # another node with this node's id
    if error_code:
        replica.effects.append(SendReply(reply_to, fetch_response(replica, error_code)))
        return
    role = replica.role
    assert isinstance(role, LeaderRole), "the leader alone serves fetches"
    position = judge_position(replica.log, partition.fetch_offset, partition.last_fetched_epoch)
    if position.is_valid and key.node_id >= 0:
        if note_fetch(replica, role, key, partition.fetch_offset, now_ms):
            answer_parked(replica, role)
    has_news = (
        not position.is_valid
        or partition.fetch_offset < replica.log.end_offset
        or partition.high_watermark < role.high_watermark
    )
    if has_news or request.max_wait_ms == 0 or len(role.parked) >= PARKED_FETCHES_MAX:
        answer_fetch(replica, reply_to, request)
    else:
        role.parked[reply_to] = ParkedReplicaFetch(reply_to, request, now_ms + request.max_wait_ms)


def _requested_partition(request: fetch.FetchRequest) -> fetch.FetchPartition | None:
    match request.topics:
        case [fetch.FetchTopic(partitions=[partition]) as topic]:
            if is_metadata_topic(topic) and partition.partition == 0:
                return partition
    return None


def _replica_id(request: fetch.FetchRequest) -> int:
    """Return the id of the replica that fetches: from v15 on in its state, before at the top."""
    in_state = request.replica_state.replica_id
    return in_state if in_state >= 0 else request.replica_id


def _fetch_error(
    replica: RaftReplica, request: fetch.FetchRequest, partition: fetch.FetchPartition
) -> int:
    if (
        request.max_wait_ms < 0
        or partition.fetch_offset < 0
        or partition.last_fetched_epoch < 0
        or partition.last_fetched_epoch > partition.current_leader_epoch
    ):
        return InvalidRequest.code
    return leader_request_error(replica, partition.current_leader_epoch)


def answer_fetch(replica: RaftReplica, reply_to: int, request: fetch.FetchRequest) -> None:
    """Answer a fetch with what the log has now."""
    partition = request.topics[0].partitions[0]
    position = judge_position(replica.log, partition.fetch_offset, partition.last_fetched_epoch)
    response = fetch_response(
        replica, diverging=position.diverging, snapshot_id=position.snapshot_id
    )
    records = None
    if position.is_valid and partition.fetch_offset < replica.log.end_offset:
        bytes_max = max(1, min(request.max_bytes, replica.settings.fetch_bytes_max))
        records = LogRange(partition.fetch_offset, bytes_max)
    replica.effects.append(SendReply(reply_to, response, records))


def answer_parked(replica: RaftReplica, role: LeaderRole) -> None:
    """Answer all parked fetches: there are new records, or the watermark has moved."""
    parked, role.parked = role.parked, {}
    for each in parked.values():
        answer_fetch(replica, each.reply_to, each.request)


def answer_expired(replica: RaftReplica, role: LeaderRole, now_ms: float) -> None:
    """Answer parked fetches whose time is over."""
    for each in [each for each in role.parked.values() if each.deadline_ms <= now_ms]:
        del role.parked[each.reply_to]
        answer_fetch(replica, each.reply_to, each.request)


def answer_released(replica: RaftReplica) -> None:
    """Answer fetches that were parked when the leadership ended."""
    for each in replica.released:
        response = fetch_response(replica, NotLeaderOrFollower.code)
        replica.effects.append(SendReply(each.reply_to, response))
    replica.released.clear()


def handle_fetch_snapshot(
    replica: RaftReplica,
    reply_to: int,
    request: fetch_snapshot.FetchSnapshotRequest,
    now_ms: float,
) -> None:
    if not is_own_cluster(replica, request.cluster_id):
        response = fetch_snapshot.FetchSnapshotResponse(error_code=InconsistentClusterId.code)
        replica.effects.append(SendReply(reply_to, response))
        return
    match request.topics:
        case [fetch_snapshot.RequestTopicSnapshot(name=name, partitions=[partition])]:
            pass
        case _:
            response = fetch_snapshot.FetchSnapshotResponse(error_code=InvalidRequest.code)
            replica.effects.append(SendReply(reply_to, response))
            return
    snapshot_id = MetadataSnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    stored = replica.log.find_snapshot(snapshot_id)
    error_code = leader_request_error(replica, partition.current_leader_epoch)
    if (name, partition.partition) != (CLUSTER_METADATA_TOPIC, 0):
        error_code = UnknownTopicOrPartition.code
    elif not error_code and (stored is None or snapshot_id == BOOTSTRAP_SNAPSHOT):
        # The log of the first leader holds the content of the bootstrap snapshot.
        error_code = SnapshotNotFound.code
    elif not error_code and stored and not 0 <= partition.position < stored.size_bytes:
        error_code = PositionOutOfRange.code
    if error_code or stored is None:
        response = fetch_snapshot_response(replica, error_code)
        response.topics[0].name = name
        response.topics[0].partitions[0].index = partition.partition
        replica.effects.append(SendReply(reply_to, response))
        return
    role = replica.role
    assert isinstance(role, LeaderRole), "the leader alone serves snapshots"
    key = ReplicaKey(request.replica_id, partition.replica_directory_id)
    note_contact(replica, role, key, now_ms)
    response = fetch_snapshot_response(
        replica,
        snapshot_id=snapshot_id,
        size_bytes=stored.size_bytes,
        position=partition.position,
    )
    bytes_max = max(1, min(request.max_bytes, replica.settings.fetch_snapshot_bytes_max))
    records = SnapshotRange(snapshot_id, partition.position, bytes_max)
    replica.effects.append(SendReply(reply_to, response, records))
