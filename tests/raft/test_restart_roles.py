"""Roles after a restart, resignation, hand-over of the leadership, and shutdown."""

import pytest
from machine_driver import (
    ELECTION_MS,
    FETCH_MS,
    MachineDriver,
    begin_request,
    directory,
    end_answer,
    end_request,
    epoch_error,
    fetch_answer,
    fetch_request,
    fetched,
    log_of,
    vote_request,
    vote_result,
)

from penstock.errors import (
    BrokerNotAvailable,
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    InvalidVoterKey,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from penstock.raft.epoch_requests import succession_delay_ms
from penstock.raft.quorum_effects import LeadershipLost, PersistElection, SendReply
from penstock.raft.quorum_events import ResignRequested, ShutdownRequested
from penstock.raft.quorum_state import QuorumState
from penstock.raft.replica_key import ReplicaKey
from penstock.wire.messages.k52_vote import VoteRequest
from penstock.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest

LOG = log_of((1, 0), (4, 5), end=10)


@pytest.mark.parametrize(
    ("stored", "role", "epoch"),
    [
        (None, "Unattached", 0),
        (QuorumState(leader_epoch=6), "Unattached", 6),
        (QuorumState(leader_epoch=6, leader_id=1), "Resigned", 6),
        (QuorumState(6, voted_id=1, voted_directory_id=directory(1)), "Candidate", 6),
        (QuorumState(6, voted_id=2, voted_directory_id=directory(2)), "Unattached", 6),
        (QuorumState(leader_epoch=6, leader_id=3), "Follower", 6),
    ],
)
def test_a_replica_starts_in_the_role_of_its_stored_state(
    stored: QuorumState | None, role: str, epoch: int
) -> None:
    replica = MachineDriver(stored=stored)
    assert (replica.role, replica.machine.epoch) == (role, epoch)


def test_a_stored_vote_without_directory_is_a_vote_for_the_node() -> None:
    stored = QuorumState(leader_epoch=6, voted_id=1)
    assert MachineDriver(stored=stored, kraft_version=0).role == "Candidate"


def test_a_state_behind_the_log_is_replaced_by_the_epoch_of_the_log() -> None:
    stored = QuorumState(leader_epoch=3, leader_id=1)
    replica = MachineDriver(stored=stored, log=log_of((4, 0), end=10))
    assert (replica.role, replica.machine.epoch) == ("Unattached", 4)


def test_a_start_makes_the_stored_state_durable_again() -> None:
    stored = QuorumState(leader_epoch=6, leader_id=3)
    assert MachineDriver(stored=stored).only(PersistElection).state == stored


def test_the_only_voter_leads_at_once_in_the_next_epoch() -> None:
    stored = QuorumState(leader_epoch=6, leader_id=1)
    leader = MachineDriver(voter_ids=(1,), stored=stored)
    assert leader.machine.is_leader
    assert leader.machine.epoch == 7
    assert leader.only(PersistElection).state.leader_id == 1


def test_a_restarted_leader_votes_for_none_in_its_epoch() -> None:
    replica = MachineDriver(stored=QuorumState(leader_epoch=6, leader_id=1))
    assert vote_result(replica.ask(vote_request(sender=2, epoch=6))) == (0, False)
    pre_vote = vote_request(sender=2, epoch=6, pre_vote=True)
    assert vote_result(replica.ask(pre_vote)) == (0, True)


def test_a_restarted_leader_asks_the_voters_to_elect_another() -> None:
    replica = MachineDriver(stored=QuorumState(leader_epoch=6, leader_id=1))
    requests = [each for each in replica.sent().values() if isinstance(each, EndQuorumEpochRequest)]
    assert [each.topics[0].partitions[0].leader_epoch for each in requests] == [6, 6]
    assert requests[0].topics[0].partitions[0].preferred_candidates == []


def test_a_resigned_leader_goes_on_in_the_next_epoch() -> None:
    replica = MachineDriver(stored=QuorumState(leader_epoch=6, leader_id=1))
    replica.wait(ELECTION_MS)
    assert replica.machine.epoch == 7
    assert replica.machine.leader_id == -1


def test_an_acknowledged_resignation_is_not_sent_again() -> None:
    replica = MachineDriver(stored=QuorumState(leader_epoch=6, leader_id=1))
    replica.answer(2, end_answer(6, leader=1))
    assert replica.sent() == {}


# -- resignation


def test_a_resigning_leader_names_the_longest_logs_first() -> None:
    leader = MachineDriver(kraft_version=1)
    leader.elect()
    leader.append()
    leader.ask(fetch_request(replica=2, offset=3, last_epoch=1))
    leader.ask(fetch_request(replica=3, offset=4, last_epoch=1))
    leader.step(ResignRequested(epoch=1))
    request = leader.sent()[2]
    assert isinstance(request, EndQuorumEpochRequest)
    candidates = request.topics[0].partitions[0].preferred_candidates
    assert [each.candidate_id for each in candidates] == [3, 2]


def test_parked_fetches_end_with_the_leadership() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(replica=3, offset=1, last_epoch=1))
    assert leader.ask(fetch_request(replica=2, offset=1, last_epoch=1, high_watermark=1)) is None
    leader.ask(begin_request(leader=3, epoch=4))
    codes = {
        fetched(each.response).error_code: fetched(each.response).current_leader.leader_id
        for each in leader.all(SendReply)
        if hasattr(each.response, "responses")
    }
    assert codes == {NotLeaderOrFollower.code: 3}
    assert leader.only(LeadershipLost).epoch == 1


def test_a_resignation_of_another_epoch_counts_nothing() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.step(ResignRequested(epoch=0))
    assert leader.machine.is_leader


def test_the_first_successor_begins_its_election_at_once() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=2, epoch=1))
    voter.ask(end_request(leader=2, epoch=1, successors=(1, 3)))
    assert voter.role == "Prospective"
    assert all(isinstance(each, VoteRequest) for each in voter.sent().values())


def test_a_later_successor_waits_longer() -> None:
    keys = [ReplicaKey(node_id, directory(node_id)) for node_id in (2, 3, 4, 5)]
    delays = [succession_delay_ms(key, keys, 1000) for key in keys]
    assert delays == [0, 125, 250, 500]
    assert succession_delay_ms(ReplicaKey(9), keys, 1000) == 1000
    assert succession_delay_ms(ReplicaKey(9), [], 1000) == 0


def test_the_end_of_another_epoch_is_fenced() -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=5))
    assert epoch_error(voter.ask(end_request(epoch=4))) == FencedLeaderEpoch.code


# -- BeginQuorumEpoch


def test_the_announcement_of_an_epoch_makes_a_follower() -> None:
    voter = MachineDriver()
    assert epoch_error(voter.ask(begin_request(leader=3, epoch=2))) == 0
    assert (voter.role, voter.machine.leader_id, voter.machine.epoch) == ("Follower", 3, 2)
    assert list(voter.sent()) == [3]


def test_an_announcement_for_another_key_counts_and_is_rejected() -> None:
    voter = MachineDriver()
    request = begin_request(leader=3, epoch=2, voter_directory=b"directory-000009")
    assert epoch_error(voter.ask(request)) == InvalidVoterKey.code
    assert voter.machine.epoch == 2


def test_a_second_leader_in_an_epoch_is_rejected() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    assert epoch_error(voter.ask(begin_request(leader=2, epoch=2))) == InvalidRequest.code
    assert voter.machine.leader_id == 3


@pytest.mark.parametrize(
    ("request_epoch", "leader", "cluster", "code"),
    [
        (1, 3, "this-cluster", FencedLeaderEpoch.code),
        (2, -1, "this-cluster", InvalidRequest.code),
        (2, 3, "another", InconsistentClusterId.code),
    ],
)
def test_wrong_announcements_are_rejected(
    request_epoch: int, leader: int, cluster: str, code: int
) -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=2))
    request = begin_request(leader=leader, epoch=request_epoch, cluster=cluster)
    assert epoch_error(voter.ask(request)) == code
    assert voter.machine.leader_id == -1


# -- followers and their leader


def test_a_voter_without_answer_for_a_fetch_timeout_begins_an_election() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    voter.wait(FETCH_MS - 1)
    assert voter.role == "Follower"
    voter.wait(1)
    assert voter.role == "Prospective"


def test_each_answer_of_the_leader_begins_the_fetch_timeout_again() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    voter.wait(FETCH_MS - 1)
    voter.answer(3, fetch_answer(3, 2))
    voter.wait(FETCH_MS - 1)
    assert voter.role == "Follower"


def test_a_leader_that_does_not_answer_makes_the_follower_ask_others() -> None:
    voter = MachineDriver(node_id=4)
    voter.ask(begin_request(leader=3, epoch=2, voter=-1))
    voter.wait(FETCH_MS)
    assert [node_id for node_id in voter.sent() if node_id != 3] != []


def test_an_answer_without_news_is_followed_by_a_pause() -> None:
    voter = MachineDriver()
    (node_id,) = voter.sent()
    voter.answer(node_id, fetch_answer(-1, 0, error_code=NotLeaderOrFollower.code))
    assert node_id not in voter.sent()
    voter.wait(20)
    assert voter.machine.replica.requests.is_ready(node_id) or voter.sent()


def test_an_answer_of_a_newer_epoch_makes_a_follower_of_its_leader() -> None:
    voter = MachineDriver()
    (node_id,) = voter.sent()
    voter.answer(node_id, fetch_answer(3, 7, error_code=FencedLeaderEpoch.code))
    assert (voter.role, voter.machine.epoch, voter.machine.leader_id) == ("Follower", 7, 3)


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, FencedLeaderEpoch.code), (2, UnknownLeaderEpoch.code), (1, NotLeaderOrFollower.code)],
)
def test_only_the_leader_of_its_epoch_serves_a_fetch(epoch: int, code: int) -> None:
    voter = MachineDriver(stored=QuorumState(leader_epoch=1))
    assert fetched(voter.ask(fetch_request(epoch=epoch))).error_code == code


# -- shutdown


def test_a_leader_that_shuts_down_resigns_and_stays_resigned() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.step(ShutdownRequested())
    assert leader.role == "Resigned"
    assert not leader.machine.may_stop
    leader.wait(10 * ELECTION_MS)
    assert leader.role == "Resigned"
    leader.ask(begin_request(leader=3, epoch=2))
    assert leader.machine.may_stop


def test_a_follower_that_shuts_down_may_stop_at_once_and_holds_no_election() -> None:
    voter = MachineDriver()
    voter.ask(begin_request(leader=3, epoch=2))
    voter.step(ShutdownRequested())
    assert voter.machine.may_stop
    voter.wait(10 * FETCH_MS)
    assert voter.role == "Follower"


def test_a_leader_about_to_stop_is_not_available() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.machine.replica.shutting_down = True
    reply = leader.ask(fetch_request(offset=0))
    assert fetched(reply).error_code == BrokerNotAvailable.code
