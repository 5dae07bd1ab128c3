"""Votes, pre-votes (KIP-996) and the roles before a leader is known.

A vote is durable before its answer leaves. An election needs a pre-election that a majority grants.
"""

from penstock.errors import (
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
    UnsupportedVersion,
)
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.raft.log_view import EpochEnd
from penstock.raft.quorum_messages import (
    end_epoch_request,
    endpoint_in,
    vote_request,
    vote_response,
)
from penstock.raft.quorum_state import NO_NODE
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.request_rules import (
    OK,
    is_own_cluster,
    is_own_voter_key,
    settle_answer,
    voter_request_error,
)
from penstock.raft.requests_in_flight import OutstandingRequest
from penstock.raft.roles import (
    CandidateRole,
    FollowerRole,
    ProspectiveRole,
    ResignedRole,
    UnattachedRole,
)
from penstock.wire.messages import k52_vote as vote


def is_up_to_date(replica: RaftReplica, candidate_end: EpochEnd) -> bool:
    """Return whether the log of a candidate holds at least what this log may have committed."""
    return candidate_end >= replica.log.end


def may_grant(
    replica: RaftReplica, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool
) -> bool:
    """Return whether this replica votes for a candidate in the present epoch."""
    match replica.role:
        case UnattachedRole() | ProspectiveRole():
            if pre_vote:
                return up_to_date
            if replica.voted_key is not None:
                return replica.voted_key.names(candidate)
            return up_to_date and not replica.has_leader
        case FollowerRole():
            # A follower in contact with its leader protects it from disturbance.
            return pre_vote and up_to_date and not replica.role.has_fetched
        case CandidateRole() | ResignedRole():
            return pre_vote and up_to_date
        case _:
            return False


def handle_vote(
    replica: RaftReplica, request: vote.VoteRequest, now_ms: float
) -> vote.VoteResponse:
    if not is_own_cluster(replica, request.cluster_id):
        return vote.VoteResponse(error_code=InconsistentClusterId.code)
    partition = _requested_partition(request)
    if partition is None:
        return vote.VoteResponse(error_code=InvalidRequest.code)
    log_end = EpochEnd(partition.last_offset_epoch, partition.last_offset)
    # A candidate has raised its epoch above that of its log; a prospective voter has not.
    epoch_max = partition.replica_epoch if partition.pre_vote else partition.replica_epoch - 1
    if log_end.end_offset < 0 or log_end.epoch < 0 or log_end.epoch > epoch_max:
        return vote_response(replica, InvalidRequest.code, granted=False)
    error_code = voter_request_error(replica, partition.replica_id, partition.replica_epoch)
    if error_code:
        return vote_response(replica, error_code, granted=False)
    if partition.replica_epoch > replica.epoch:
        replica.become_unattached(partition.replica_epoch, NO_NODE, now_ms)
    if not is_own_voter_key(replica, request.voter_id, partition.voter_directory_id):
        return vote_response(replica, InvalidVoterKey.code, granted=False)
    candidate = ReplicaKey(partition.replica_id, partition.replica_directory_id)
    granted = may_grant(
        replica,
        candidate,
        up_to_date=is_up_to_date(replica, log_end),
        pre_vote=partition.pre_vote,
    )
    if granted and not partition.pre_vote and replica.voted_key is None:
        replica.grant_vote(candidate, now_ms)
    return vote_response(replica, OK, granted=granted)


def _requested_partition(request: vote.VoteRequest) -> vote.RequestPartitionData | None:
    match request.topics:
        case [vote.RequestTopicData(topic_name=name, partitions=[partition])]:
            if name == CLUSTER_METADATA_TOPIC and partition.partition_index == 0:
                return partition
    return None


def handle_vote_answer(
    replica: RaftReplica, asked: OutstandingRequest, response: vote.VoteResponse, now_ms: float
) -> bool:
    """Count a vote; return False if the node has to be left alone for a moment."""
    if response.error_code == UnsupportedVersion.code:
        if not isinstance(replica.role, ProspectiveRole):
            return False
        replica.become_candidate(now_ms)  # a voter without pre-vote: hold a plain election
        return True
    match response.topics:
        case [vote.ResponseTopicData(partitions=[partition])] if response.error_code == OK:
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
    match replica.role:
        case ProspectiveRole():
            replica.role.tally.record(asked.node_id, granted=partition.vote_granted)
            if replica.role.tally.is_granted:
                replica.become_candidate(now_ms)
            elif replica.role.tally.is_rejected:
                end_pre_election(replica, now_ms)
        case CandidateRole():
            replica.role.tally.record(asked.node_id, granted=partition.vote_granted)
            if replica.role.tally.is_granted:
                replica.become_leader(now_ms)
    return True


def end_pre_election(replica: RaftReplica, now_ms: float) -> None:
    """Go back to the leader of the epoch, if one is known, or wait for one."""
    if replica.has_leader and replica.leader_id != replica.me.node_id:
        replica.become_follower(replica.epoch, replica.leader_id, replica.leader_endpoint, now_ms)
    else:
        replica.become_unattached(replica.epoch, replica.leader_id, now_ms)


def poll_nominee(
    replica: RaftReplica, role: ProspectiveRole | CandidateRole, now_ms: float
) -> bool:
    """End an election that took too long, or ask for votes; return whether the role changed."""
    if now_ms >= role.election_deadline_ms and not replica.shutting_down:
        if isinstance(role, CandidateRole):
            replica.become_prospective(now_ms)
        else:
            end_pre_election(replica, now_ms)
        return True
    # The log that a vote is asked for has to survive a crash: voters compare it with theirs.
    if replica.is_synced and not role.tally.is_rejected:
        for voter_id in role.tally.undecided:
            if replica.requests.is_ready(voter_id):
                pre_vote = isinstance(role, ProspectiveRole)
                replica.send(voter_id, vote_request(replica, voter_id, pre_vote=pre_vote), now_ms)
    return False


def poll_resigned(replica: RaftReplica, role: ResignedRole, now_ms: float) -> bool:
    """Ask voters to elect another leader; return whether the role changed."""
    if now_ms >= role.election_deadline_ms and not replica.shutting_down:
        # The next epoch: no fetch may find this replica as the leader of the old one.
        replica.become_unattached(replica.epoch + 1, NO_NODE, now_ms)
        return True
    for voter_id in role.unacknowledged:
        if replica.requests.is_ready(voter_id):
            replica.send(voter_id, end_epoch_request(replica, role), now_ms)
    return False
