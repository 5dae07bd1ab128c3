"""Requests and responses of the quorum, made from the state of a replica.

Every message names one partition, the metadata partition. Responses carry the epoch and its leader
as they are after the request was handled.
"""

from penstock.model import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_ID
from penstock.raft.log_view import EpochEnd
from penstock.raft.quorum_state import NO_NODE
from penstock.raft.replica import RaftReplica
from penstock.raft.roles import LeaderRole, ResignedRole, SnapshotDownload
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import VoterEndpoint
from penstock.wire.messages import k01_fetch as fetch
from penstock.wire.messages import k52_vote as vote
from penstock.wire.messages import k53_begin_quorum_epoch as begin
from penstock.wire.messages import k54_end_quorum_epoch as end
from penstock.wire.messages import k59_fetch_snapshot as fetch_snapshot
from penstock.wire.structures import (
    LeaderIdAndEpoch,
    Listener,
    NodeEndpoint,
    QuorumNodeEndpoint,
    QuorumPartitionResult,
    QuorumTopicResult,
)

NO_SNAPSHOT = MetadataSnapshotId(-1, -1)

# -- requests


def vote_request(replica: RaftReplica, voter_id: int, *, pre_vote: bool) -> vote.VoteRequest:
    voter = replica.history.find(voter_id)
    log_end = replica.log.end
    partition = vote.RequestPartitionData(
        replica_epoch=replica.epoch,
        replica_id=replica.me.node_id,
        replica_directory_id=replica.me.directory_id,
        voter_directory_id=voter.directory_id if voter else ZERO_ID,
        last_offset_epoch=log_end.epoch,
        last_offset=log_end.end_offset,
        pre_vote=pre_vote,
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=replica.settings.cluster_id, voter_id=voter_id, topics=[topic]
    )


def begin_epoch_request(replica: RaftReplica, voter_id: int) -> begin.BeginQuorumEpochRequest:
    voter = replica.history.find(voter_id)
    partition = begin.RequestPartitionData(
        voter_directory_id=voter.directory_id if voter else ZERO_ID,
        leader_id=replica.me.node_id,
        leader_epoch=replica.epoch,
    )
    topic = begin.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochRequest(
        cluster_id=replica.settings.cluster_id,
        voter_id=voter_id,
        topics=[topic],
        leader_endpoints=_listeners(replica),
    )


def end_epoch_request(replica: RaftReplica, role: ResignedRole) -> end.EndQuorumEpochRequest:
    partition = end.RequestPartitionData(
        leader_id=replica.me.node_id,
        leader_epoch=replica.epoch,
        preferred_successors=[key.node_id for key in role.successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in role.successors
        ],
    )
    topic = end.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end.EndQuorumEpochRequest(
        cluster_id=replica.settings.cluster_id,
        topics=[topic],
        leader_endpoints=_listeners(replica),
    )


def _listeners(replica: RaftReplica) -> list[Listener]:
    return [
        Listener(name=each.listener, host=each.host, port=each.port)
        for each in replica.me.endpoints
    ]


def fetch_request(replica: RaftReplica) -> fetch.FetchRequest:
    log_end = replica.log.end
    partition = fetch.FetchPartition(
        current_leader_epoch=replica.epoch,
        fetch_offset=log_end.end_offset,
        last_fetched_epoch=log_end.epoch,
        replica_directory_id=replica.me.directory_id,
        high_watermark=replica.high_watermark,
    )
    topic = fetch.FetchTopic(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchRequest(
        cluster_id=replica.settings.cluster_id,
        replica_id=replica.me.node_id,
        replica_state=fetch.ReplicaState(replica_id=replica.me.node_id),
        max_wait_ms=replica.settings.fetch_wait_ms_max,
        max_bytes=replica.settings.fetch_bytes_max,
        topics=[topic],
    )


def fetch_snapshot_request(
    replica: RaftReplica, download: SnapshotDownload
) -> fetch_snapshot.FetchSnapshotRequest:
    end_offset, epoch = download.snapshot_id
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=replica.epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
        position=download.position,
        replica_directory_id=replica.me.directory_id,
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=replica.settings.cluster_id,
        replica_id=replica.me.node_id,
        max_bytes=replica.settings.fetch_snapshot_bytes_max,
        topics=[topic],
    )


# -- responses


def _leader_endpoint(replica: RaftReplica) -> VoterEndpoint | None:
    return replica.endpoint_of(replica.leader_id) if replica.has_leader else None


def quorum_endpoints(replica: RaftReplica) -> list[QuorumNodeEndpoint]:
    """Return the address of the leader, where it is known."""
    endpoint = _leader_endpoint(replica)
    if endpoint is None:
        return []
    return [QuorumNodeEndpoint(node_id=replica.leader_id, host=endpoint.host, port=endpoint.port)]


def vote_response(replica: RaftReplica, error_code: int, *, granted: bool) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        error_code=error_code,
        leader_id=replica.leader_id,
        leader_epoch=replica.epoch,
        vote_granted=granted,
    )
    topic = vote.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteResponse(topics=[topic], node_endpoints=quorum_endpoints(replica))


def _epoch_results(replica: RaftReplica, error_code: int) -> list[QuorumTopicResult]:
    partition = QuorumPartitionResult(
        error_code=error_code, leader_id=replica.leader_id, leader_epoch=replica.epoch
    )
    return [QuorumTopicResult(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])]


def begin_epoch_response(replica: RaftReplica, error_code: int) -> begin.BeginQuorumEpochResponse:
    return begin.BeginQuorumEpochResponse(
        topics=_epoch_results(replica, error_code), node_endpoints=quorum_endpoints(replica)
    )


def end_epoch_response(replica: RaftReplica, error_code: int) -> end.EndQuorumEpochResponse:
    return end.EndQuorumEpochResponse(
        topics=_epoch_results(replica, error_code), node_endpoints=quorum_endpoints(replica)
    )


def fetch_response(
    replica: RaftReplica,
    error_code: int = 0,
    *,
    diverging: EpochEnd | None = None,
    snapshot_id: MetadataSnapshotId | None = None,
) -> fetch.FetchResponse:
    """Return a response without records. Errors carry no high watermark."""
    role = replica.role
    known = error_code == 0 and isinstance(role, LeaderRole)
    partition = fetch.PartitionData(
        error_code=error_code,
        high_watermark=role.high_watermark if known and isinstance(role, LeaderRole) else -1,
        log_start_offset=replica.log.start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=replica.leader_id, leader_epoch=replica.epoch
        ),
        records=b"",
    )
    if diverging is not None:
        partition.diverging_epoch = fetch.EpochEndOffset(
            epoch=diverging.epoch, end_offset=diverging.end_offset
        )
    if snapshot_id is not None:
        partition.snapshot_id = fetch.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        )
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    endpoint = _leader_endpoint(replica)
    endpoints = []
    if endpoint is not None:
        endpoints = [
            NodeEndpoint(node_id=replica.leader_id, host=endpoint.host, port=endpoint.port)
        ]
    return fetch.FetchResponse(responses=[topic], node_endpoints=endpoints)


def fetch_snapshot_response(
    replica: RaftReplica,
    error_code: int = 0,
    *,
    snapshot_id: MetadataSnapshotId = NO_SNAPSHOT,
    size_bytes: int = 0,
    position: int = 0,
) -> fetch_snapshot.FetchSnapshotResponse:
    """Return a response without the bytes of the snapshot."""
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        error_code=error_code,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=LeaderIdAndEpoch(leader_id=replica.leader_id, leader_epoch=replica.epoch),
        size=size_bytes,
        position=position,
    )
    topic = fetch_snapshot.ResponseTopicSnapshot(
        name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[topic], node_endpoints=quorum_endpoints(replica)
    )


# -- what an answer says about the leader


def endpoint_in(
    replica: RaftReplica, leader_id: int, endpoints: list[QuorumNodeEndpoint] | list[NodeEndpoint]
) -> VoterEndpoint | None:
    """Return the address of the leader that an answer carries, or the one that is known."""
    listener = replica.me.endpoints[0].listener if replica.me.endpoints else ""
    for each in endpoints:
        if each.node_id == leader_id:
            return VoterEndpoint(listener, each.host, each.port)
    return replica.endpoint_of(leader_id) if leader_id != NO_NODE else None
