"""Checks that every request and answer of the quorum passes before its own rules."""

from penstock.errors import (
    BrokerNotAvailable,
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidVoterKey,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from penstock.model import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_ID
from penstock.raft.quorum_state import NO_NODE
from penstock.raft.replica import RaftReplica
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.roles import LeaderRole
from penstock.raft.voters import VoterEndpoint
from penstock.wire.messages import k01_fetch as fetch

OK = 0
_FAILURES = (BrokerNotAvailable.code, InvalidRequest.code, InvalidVoterKey.code)


def is_own_cluster(replica: RaftReplica, cluster_id: str | None) -> bool:
    """Return whether a cluster id is right; a request without one passes."""
    return cluster_id is None or cluster_id == replica.settings.cluster_id


def is_metadata_topic(topic: fetch.FetchTopic | fetch.FetchableTopicResponse) -> bool:
    """Return whether a fetch names the metadata topic, by id (v13+) or by name."""
    if topic.topic_id == ZERO_ID:
        return topic.topic == CLUSTER_METADATA_TOPIC
    return topic.topic_id == METADATA_TOPIC_ID


def voter_request_error(replica: RaftReplica, sender_id: int, epoch: int) -> int:
    """Return the error of a request between voters that is old, or names no sender."""
    if epoch < replica.epoch:
        return FencedLeaderEpoch.code
    return InvalidRequest.code if sender_id < 0 else OK


def leader_request_error(replica: RaftReplica, epoch: int) -> int:
    """Return the error of a request that only the leader of its epoch answers."""
    if epoch < replica.epoch:
        return FencedLeaderEpoch.code
    if epoch > replica.epoch:
        return UnknownLeaderEpoch.code
    if not isinstance(replica.role, LeaderRole):
        return NotLeaderOrFollower.code
    return BrokerNotAvailable.code if replica.shutting_down else OK


def is_own_voter_key(replica: RaftReplica, voter_id: int, directory_id: bytes) -> bool:
    """Return whether a request was meant for this replica; one without key passes."""
    return voter_id < 0 or ReplicaKey(voter_id, directory_id).names(replica.key)


def is_consistent_leader(replica: RaftReplica, leader_id: int, epoch: int) -> bool:
    """Return whether a leader in a message agrees with the one that is known here."""
    if leader_id == replica.me.node_id:
        return isinstance(replica.role, LeaderRole) and epoch <= replica.epoch
    return (
        epoch != replica.epoch
        or NO_NODE in (leader_id, replica.leader_id)
        or (leader_id == replica.leader_id)
    )


def follow_epoch(
    replica: RaftReplica,
    leader_id: int,
    epoch: int,
    endpoint: VoterEndpoint | None,
    now_ms: float,
) -> bool:
    """Move to the epoch and leader of a message; return False if they contradict this replica's."""
    if not is_consistent_leader(replica, leader_id, epoch):
        return False
    if epoch > replica.epoch:
        if leader_id == NO_NODE:
            replica.become_unattached(epoch, NO_NODE, now_ms)
        else:
            replica.become_follower(epoch, leader_id, endpoint, now_ms)
    elif epoch == replica.epoch and leader_id not in (NO_NODE, replica.me.node_id):
        if not replica.has_leader:
            replica.become_follower(epoch, leader_id, endpoint, now_ms)
        elif replica.leader_endpoint is None:
            replica.leader_endpoint = endpoint
    return True


def settle_answer(
    replica: RaftReplica,
    error_code: int,
    leader_id: int,
    epoch: int,
    endpoint: VoterEndpoint | None,
    now_ms: float,
) -> bool | None:
    """Handle what all answers have in common.

    Return None if the answer is to be handled by the rules of its request. Else return whether the
    answer has brought news; a node without news is left alone for a moment, so that no request is
    repeated at the speed of the network.
    """
    if epoch < replica.epoch or error_code == UnknownLeaderEpoch.code:
        return False
    before = (replica.epoch, replica.leader_id)
    if epoch > replica.epoch or error_code in (FencedLeaderEpoch.code, NotLeaderOrFollower.code):
        follow_epoch(replica, leader_id, epoch, endpoint, now_ms)
        return (replica.epoch, replica.leader_id) != before
    if leader_id not in (NO_NODE, replica.me.node_id) and not replica.has_leader:
        replica.become_follower(epoch, leader_id, endpoint, now_ms)
        return None if error_code == OK else True
    return None if error_code not in _FAILURES else False
