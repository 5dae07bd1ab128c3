"""The first batch of an epoch: its leader, and the voters where the log has to name them."""

from dataclasses import replace

from penstock.raft.quorum_effects import ControlMessage
from penstock.raft.voter_history import NOT_IN_LOG, VoterHistory
from penstock.raft.voters import QuorumVoter, to_record
from penstock.wire.records.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)


def leader_change_messages(
    leader: QuorumVoter, history: VoterHistory, granting: list[int]
) -> tuple[ControlMessage, ...]:
    """Return the control records that begin an epoch.

    From kraft.version 1 on the voters follow if formatting alone has named them so far, or if the
    leader listens elsewhere than the log says.
    """
    voters = [LeaderChangeVoter(voter_id=voter.node_id) for voter in history.latest]
    change = LeaderChangeMessage(
        leader_id=leader.node_id,
        voters=voters,
        granting_voters=[LeaderChangeVoter(voter_id=each) for each in granting],
    )
    if history.kraft_version == 0:
        return (change,)
    known = history.find(leader.node_id)
    moved = known is not None and bool(leader.endpoints) and known.endpoints != leader.endpoints
    if history.latest_entry.offset != NOT_IN_LOG and not moved:
        return (change,)
    updated = tuple(
        replace(voter, endpoints=leader.endpoints)
        if voter.node_id == leader.node_id and leader.endpoints
        else voter
        for voter in history.latest
    )
    version = KRaftVersionRecord(kraft_version=history.kraft_version)
    return (change, version, to_record(updated))
