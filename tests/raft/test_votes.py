"""Votes and pre-votes: who gets one, what is durable first, and which requests are rejected."""

import pytest
from machine_driver import (
    ELECTION_MS,
    FETCH_MS,
    MachineDriver,
    begin_request,
    fetch_answer,
    log_of,
    vote_answer,
    vote_request,
    vote_result,
)

from penstock.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
    UnsupportedVersion,
)
from penstock.raft.quorum_effects import PersistElection, SendReply, SendRequest
from penstock.raft.quorum_state import QuorumState
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse

GRANTED, DENIED = (0, True), (0, False)


def test_a_vote_is_durable_before_its_answer() -> None:
    voter = MachineDriver()
    assert vote_result(voter.ask(vote_request(epoch=3))) == GRANTED
    kinds = [type(each) for each in voter.effects]
    assert kinds.index(PersistElection) < kinds.index(SendReply)
    state = voter.only(PersistElection).state
    assert (state.leader_epoch, state.voted_id, state.leader_id) == (3, 2, -1)


def test_a_voter_votes_once_in_an_epoch() -> None:
    voter = MachineDriver()
    assert vote_result(voter.ask(vote_request(sender=2, epoch=3))) == GRANTED
    assert vote_result(voter.ask(vote_request(sender=3, epoch=3))) == DENIED
    assert vote_result(voter.ask(vote_request(sender=2, epoch=3))) == GRANTED


def test_a_vote_of_an_earlier_life_still_counts() -> None:
    stored = QuorumState(leader_epoch=3, voted_id=2, voted_directory_id=b"directory-000002")
    voter = MachineDriver(stored=stored)
    assert vote_result(voter.ask(vote_request(sender=3, epoch=3))) == DENIED
    assert vote_result(voter.ask(vote_request(sender=2, epoch=3))) == GRANTED


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ((2, 9), DENIED),
        ((2, 10), GRANTED),
        ((2, 11), GRANTED),
        ((1, 50), DENIED),
        ((3, 1), GRANTED),
    ],
)
def test_a_vote_goes_to_a_log_that_is_as_long_as_ours(
    last: tuple[int, int], expected: tuple[int, bool]
) -> None:
    voter = MachineDriver(log=log_of((1, 0), (2, 5), end=10))
    assert vote_result(voter.ask(vote_request(epoch=7, last=last))) == expected


@pytest.mark.parametrize("pre_vote", [False, True])
def test_the_epoch_of_a_log_may_not_be_above_the_epoch_of_its_candidate(pre_vote: bool) -> None:
    voter = MachineDriver()
    above = 4 if pre_vote else 3
    request = vote_request(epoch=3, last=(above, 10), pre_vote=pre_vote)
    assert vote_result(voter.ask(request)) == (InvalidRequest.code, False)
    assert voter.machine.epoch == 0
    fine = vote_request(epoch=3, last=(above - 1, 10), pre_vote=pre_vote)
    assert vote_result(voter.ask(fine)) == GRANTED


def test_a_negative_log_end_is_rejected() -> None:
    voter = MachineDriver()
    request = vote_request(epoch=3, last=(0, -1))
    assert vote_result(voter.ask(request)) == (InvalidRequest.code, False)


def test_no_vote_goes_out_in_an_epoch_with_a_leader() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    assert vote_result(voter.ask(vote_request(sender=2, epoch=2))) == DENIED


def test_an_older_epoch_is_fenced() -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=5))
    assert vote_result(voter.ask(vote_request(epoch=4))) == (FencedLeaderEpoch.code, False)


def test_a_candidate_outside_the_voter_set_may_get_a_vote() -> None:
    voter = MachineDriver()
    assert vote_result(voter.ask(vote_request(sender=9, epoch=1))) == GRANTED


def test_a_vote_for_another_key_raises_the_epoch_and_is_rejected() -> None:
    voter = MachineDriver()
    wrong = vote_request(epoch=4, voter_directory=b"directory-000009")
    assert vote_result(voter.ask(wrong)) == (InvalidVoterKey.code, False)
    assert voter.machine.epoch == 4
    other = vote_request(epoch=5, voter=7)
    assert vote_result(voter.ask(other)) == (InvalidVoterKey.code, False)


def test_a_vote_without_voter_key_passes() -> None:
    voter = MachineDriver()
    assert vote_result(voter.ask(vote_request(epoch=4, voter=-1))) == GRANTED


def test_another_cluster_is_rejected_and_changes_nothing() -> None:
    voter = MachineDriver()
    request = vote_request(epoch=4, cluster="another")
    assert vote_result(voter.ask(request)) == (InconsistentClusterId.code, False)
    assert voter.machine.epoch == 0
    assert vote_result(voter.ask(vote_request(epoch=4, cluster=None))) == GRANTED


def test_another_partition_is_an_invalid_request() -> None:
    voter = MachineDriver()
    request = vote_request(epoch=4, partition=1)
    assert vote_result(voter.ask(request)) == (InvalidRequest.code, False)


# -- pre-votes


def test_a_pre_vote_changes_nothing() -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=3))
    assert vote_result(voter.ask(vote_request(sender=2, epoch=3, pre_vote=True))) == GRANTED
    assert vote_result(voter.ask(vote_request(sender=3, epoch=3, pre_vote=True))) == GRANTED
    assert voter.all(PersistElection) == []
    assert voter.machine.replica.voted_key is None


def test_a_pre_vote_of_a_higher_epoch_raises_the_epoch() -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=3))
    voter.ask(vote_request(epoch=5, pre_vote=True))
    assert voter.only(PersistElection).state.leader_epoch == 5


def test_a_follower_denies_pre_votes_after_its_first_fetch() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    request = vote_request(sender=2, epoch=2, pre_vote=True)
    assert vote_result(voter.ask(request)) == GRANTED
    voter.answer(3, fetch_answer(3, 2))
    assert vote_result(voter.ask(request)) == DENIED


def test_the_leader_denies_pre_votes() -> None:
    leader = MachineDriver()
    leader.elect()
    request = vote_request(epoch=1, last=(1, 99), pre_vote=True)
    assert vote_result(leader.ask(request)) == DENIED


def test_a_voter_that_has_voted_grants_pre_votes_of_others() -> None:
    voter = MachineDriver()
    voter.ask(vote_request(sender=2, epoch=3))
    assert vote_result(voter.ask(vote_request(sender=3, epoch=3, pre_vote=True))) == GRANTED


def test_a_pre_vote_goes_to_a_log_that_is_as_long_as_ours() -> None:
    voter = MachineDriver(log=log_of((1, 0), end=10), stored=QuorumState(leader_epoch=1))
    request = vote_request(epoch=1, last=(1, 9), pre_vote=True)
    assert vote_result(voter.ask(request)) == DENIED


# -- elections


def test_an_election_begins_with_pre_votes_in_the_same_epoch() -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=4))
    voter.wait(ELECTION_MS)
    assert voter.role == "Prospective"
    requests = [each for each in voter.sent().values() if isinstance(each, VoteRequest)]
    assert [r.topics[0].partitions[0].pre_vote for r in requests] == [True, True]
    assert voter.machine.epoch == 4
    assert voter.all(PersistElection) == []


def test_a_majority_of_pre_votes_begins_the_election() -> None:
    voter = MachineDriver()
    voter.wait(ELECTION_MS)
    voter.answer(2, vote_answer(0, granted=True))
    assert voter.role == "Candidate"
    state = voter.only(PersistElection).state
    assert (state.leader_epoch, state.voted_id) == (1, 1)
    assert len(voter.sent()) == 2


def test_a_rejected_pre_election_waits_for_a_leader() -> None:
    voter = MachineDriver()
    voter.wait(ELECTION_MS)
    voter.answer(2, vote_answer(0, granted=False))
    assert voter.role == "Prospective"
    voter.answer(3, vote_answer(0, granted=False))
    assert voter.role == "Unattached"
    assert voter.machine.epoch == 0


def test_a_follower_whose_pre_election_is_rejected_goes_back_to_its_leader() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    voter.wait(FETCH_MS)
    assert voter.role == "Prospective"
    voter.answer(2, vote_answer(2, granted=False, leader=3))
    voter.answer(3, vote_answer(2, granted=False, leader=3))
    assert (voter.role, voter.machine.leader_id) == ("Follower", 3)


def test_a_candidate_without_majority_holds_a_pre_election_in_its_epoch() -> None:
    voter = MachineDriver()
    voter.wait(ELECTION_MS)
    voter.answer(2, vote_answer(0, granted=True))
    voter.wait(ELECTION_MS)
    assert (voter.role, voter.machine.epoch) == ("Prospective", 1)


def test_a_voter_without_pre_vote_gets_a_plain_election() -> None:
    voter = MachineDriver()
    voter.wait(ELECTION_MS)
    voter.answer(2, VoteResponse(error_code=UnsupportedVersion.code))
    assert (voter.role, voter.machine.epoch) == ("Candidate", 1)


def test_a_vote_is_asked_for_only_when_the_log_is_synced() -> None:
    voter = MachineDriver(log=log_of((1, 0), end=10), hold_syncs=True)
    voter.wait(ELECTION_MS)
    assert voter.all(SendRequest) == []
    voter.sync()
    assert len(voter.sent()) == 2


def test_answers_of_an_earlier_election_do_not_count() -> None:
    voter = MachineDriver()
    voter.wait(ELECTION_MS)
    late = voter.in_flight[3]
    voter.answer(2, vote_answer(0, granted=True))
    voter.in_flight[3] = late
    voter.answer(3, vote_answer(0, granted=True))
    assert voter.role == "Candidate"


def test_an_observer_holds_no_election() -> None:
    observer = MachineDriver(node_id=4)
    observer.wait(100 * ELECTION_MS)
    assert observer.role == "Unattached"
