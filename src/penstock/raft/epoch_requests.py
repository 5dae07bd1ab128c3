"""BeginQuorumEpoch and EndQuorumEpoch: a leader announces its epoch, or hands it over."""

from collections.abc import Sequence

from penstock.errors import InconsistentClusterId, InvalidRequest, InvalidVoterKey
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.raft.quorum_messages import (
    begin_epoch_response,
    end_epoch_response,
    endpoint_in,
)
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.request_rules import (
    OK,
    follow_epoch,
    is_own_cluster,
    is_own_voter_key,
    settle_answer,
    voter_request_error,
)
from penstock.raft.requests_in_flight import OutstandingRequest
from penstock.raft.roles import FollowerRole, ResignedRole
from penstock.raft.voters import VoterEndpoint
from penstock.wire.messages import k53_begin_quorum_epoch as begin
from penstock.wire.messages import k54_end_quorum_epoch as end
from penstock.wire.structures import Listener, QuorumTopicResult


def _leader_endpoint(
    replica: RaftReplica, leader_id: int, listeners: list[Listener]
) -> VoterEndpoint | None:
    if listeners:
        return VoterEndpoint(listeners[0].name, listeners[0].host, listeners[0].port)
    voter = replica.history.find(leader_id)
    return voter.endpoints[0] if voter is not None and voter.endpoints else None


def handle_begin_epoch(
    replica: RaftReplica, request: begin.BeginQuorumEpochRequest, now_ms: float
) -> begin.BeginQuorumEpochResponse:
    if not is_own_cluster(replica, request.cluster_id):
        return begin.BeginQuorumEpochResponse(error_code=InconsistentClusterId.code)
    match request.topics:
        case [begin.RequestTopicData(topic_name=name, partitions=[partition])] if (
            name == CLUSTER_METADATA_TOPIC and partition.partition_index == 0
        ):
            leader_id, epoch = partition.leader_id, partition.leader_epoch
        case _:
            return begin.BeginQuorumEpochResponse(error_code=InvalidRequest.code)
    error_code = voter_request_error(replica, leader_id, epoch)
    if error_code:
        return begin_epoch_response(replica, error_code)
    endpoint = _leader_endpoint(replica, leader_id, request.leader_endpoints)
    if not follow_epoch(replica, leader_id, epoch, endpoint, now_ms):
        return begin_epoch_response(replica, InvalidRequest.code)
    if not is_own_voter_key(replica, request.voter_id, partition.voter_directory_id):
        return begin_epoch_response(replica, InvalidVoterKey.code)
    return begin_epoch_response(replica, OK)


def handle_end_epoch(
    replica: RaftReplica, request: end.EndQuorumEpochRequest, now_ms: float
) -> end.EndQuorumEpochResponse:
    if not is_own_cluster(replica, request.cluster_id):
        return end.EndQuorumEpochResponse(error_code=InconsistentClusterId.code)
    match request.topics:
        case [end.RequestTopicData(topic_name=name, partitions=[partition])] if (
            name == CLUSTER_METADATA_TOPIC and partition.partition_index == 0
        ):
            leader_id, epoch = partition.leader_id, partition.leader_epoch
        case _:
            return end.EndQuorumEpochResponse(error_code=InvalidRequest.code)
    error_code = voter_request_error(replica, leader_id, epoch)
    if error_code:
        return end_epoch_response(replica, error_code)
    endpoint = _leader_endpoint(replica, leader_id, request.leader_endpoints)
    if not follow_epoch(replica, leader_id, epoch, endpoint, now_ms):
        return end_epoch_response(replica, InvalidRequest.code)
    if isinstance(replica.role, FollowerRole) and replica.leader_id == leader_id:
        candidates = [
            ReplicaKey(each.candidate_id, each.candidate_directory_id)
            for each in partition.preferred_candidates
        ] or [ReplicaKey(each) for each in partition.preferred_successors]
        delay_ms = succession_delay_ms(
            replica.key, candidates, replica.settings.election_backoff_ms_max
        )
        replica.role.fetch_deadline_ms = now_ms + delay_ms
    return end_epoch_response(replica, OK)


def succession_delay_ms(me: ReplicaKey, candidates: Sequence[ReplicaKey], ms_max: int) -> int:
    """Return how long a successor waits before its election: the first none, each later twice."""
    rank = next((i for i, each in enumerate(candidates) if each.names(me)), len(candidates))
    if rank == 0 and candidates:
        return 0
    if rank >= len(candidates):
        return ms_max if candidates else 0
    first_ms = ms_max >> (len(candidates) - 1)
    return min(ms_max, first_ms << (rank - 1))


def handle_epoch_answer(
    replica: RaftReplica,
    asked: OutstandingRequest,
    response: begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse,
    now_ms: float,
) -> bool:
    """Note an acknowledgement; return False if the node has to be left alone for a moment."""
    match response.topics:
        case [QuorumTopicResult(partitions=[partition])] if response.error_code == OK:
            pass
        case _:
            return False
    endpoint = endpoint_in(replica, partition.leader_id, response.node_endpoints)
    settled = settle_answer(
        replica,
        partition.error_code,
        partition.leader_id,
        partition.leader_epoch,
        endpoint,
        now_ms,
    )
    if settled is not None:
        return settled
    if partition.error_code:
        return False
    if isinstance(replica.role, ResignedRole) and asked.node_id in replica.role.unacknowledged:
        replica.role.unacknowledged.remove(asked.node_id)
    return True
