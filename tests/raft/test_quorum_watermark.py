"""The high watermark of the quorum, progress of replicas, check-quorum and DescribeQuorum."""

from machine_driver import (
    FETCH_MS,
    MachineDriver,
    fetch_request,
    fetched,
    log_of,
    snapshot_request,
    vote_answer,
    voter,
)

from penstock.raft.control import control_record
from penstock.raft.description import describe_quorum
from penstock.raft.leadership import OBSERVER_SESSION_MS
from penstock.raft.quorum_effects import (
    AppendControl,
    HighWatermarkMoved,
    LeadershipGained,
    LeadershipLost,
    PersistElection,
    SendReply,
    SendRequest,
    SyncLog,
)
from penstock.raft.quorum_events import LeaderAppended, SnapshotWritten
from penstock.raft.roles import LeaderRole
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import to_record
from penstock.wire.batch import build_batch
from penstock.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.wire.records.quorum import LeaderChangeMessage, VotersRecord

CHECK_QUORUM_MS = 1.5 * FETCH_MS


def test_a_new_leader_persists_then_appends_then_tells_the_voters() -> None:
    leader = MachineDriver(hold_syncs=True)
    leader.elect()
    kinds = [type(each) for each in leader.effects]
    order = [PersistElection, AppendControl, SyncLog, LeadershipGained, SendRequest]
    places = [kinds.index(kind) for kind in order]
    assert places == sorted(places)


def test_the_first_batch_of_an_epoch_names_leader_and_voters() -> None:
    leader = MachineDriver()
    leader.elect()
    change, _, voters = leader.only(AppendControl).messages
    assert isinstance(change, LeaderChangeMessage)
    assert isinstance(voters, VotersRecord)
    assert (change.leader_id, [each.voter_id for each in change.voters]) == (1, [1, 2, 3])
    assert [each.voter_id for each in change.granting_voters] == [1, 2]


def test_static_voters_are_not_written_to_the_log() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    (change,) = leader.only(AppendControl).messages
    assert isinstance(change, LeaderChangeMessage)


def test_the_watermark_is_unknown_before_the_first_batch_of_the_epoch_is_committed() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    reply = fetched(leader.ask(fetch_request(offset=0)))
    assert reply.high_watermark == -1
    assert leader.machine.high_watermark == -1


def test_a_majority_at_the_end_of_the_first_batch_commits_it() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(offset=1, last_epoch=1))
    assert leader.only(HighWatermarkMoved).offset == 1


def test_records_of_older_epochs_alone_are_not_committed_by_counting() -> None:
    leader = MachineDriver(log=log_of((1, 0), end=10))
    leader.elect()
    assert leader.machine.epoch == 2
    leader.ask(fetch_request(replica=2, epoch=2, offset=10, last_epoch=1))
    leader.ask(fetch_request(replica=3, epoch=2, offset=10, last_epoch=1))
    assert leader.machine.high_watermark == -1


def test_only_the_synced_end_of_the_leader_counts() -> None:
    leader = MachineDriver(kraft_version=0, hold_syncs=True)
    leader.elect()
    leader.ask(fetch_request(offset=1, last_epoch=1))
    assert leader.machine.high_watermark == -1
    leader.sync()
    assert leader.machine.high_watermark == 1


def test_two_followers_commit_without_the_sync_of_the_leader() -> None:
    leader = MachineDriver(kraft_version=0, hold_syncs=True)
    leader.elect()
    leader.ask(fetch_request(replica=2, offset=1, last_epoch=1))
    leader.ask(fetch_request(replica=3, offset=1, last_epoch=1))
    assert leader.machine.high_watermark == 1


def test_observers_do_not_count() -> None:
    leader = MachineDriver(kraft_version=0, hold_syncs=True)
    leader.elect()
    for observer in (7, 8, 9):
        leader.ask(fetch_request(replica=observer, offset=1, last_epoch=1))
    assert leader.machine.high_watermark == -1


def test_a_voter_with_another_directory_does_not_count() -> None:
    leader = MachineDriver(hold_syncs=True)
    leader.elect()
    request = fetch_request(offset=3, last_epoch=1, replica_directory=b"directory-000009")
    leader.ask(request)
    leader.sync()
    assert leader.machine.high_watermark == -1


def test_the_watermark_does_not_move_back_with_a_follower_that_does() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.append()
    leader.ask(fetch_request(offset=2, last_epoch=1, high_watermark=2))
    leader.ask(fetch_request(offset=1, last_epoch=1))
    assert leader.machine.high_watermark == 2


def test_a_parked_fetch_ends_when_records_arrive() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(replica=3, offset=1, last_epoch=1))
    assert leader.ask(fetch_request(replica=2, offset=1, last_epoch=1, high_watermark=1)) is None
    leader.append()
    reply = leader.only(SendReply)
    assert reply.records is not None


def test_a_parked_fetch_ends_when_the_watermark_moves() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.append()
    leader.ask(fetch_request(replica=2, offset=1, last_epoch=1))
    assert leader.ask(fetch_request(replica=4, offset=2, last_epoch=1, high_watermark=1)) is None
    leader.ask(fetch_request(replica=2, offset=2, last_epoch=1, high_watermark=1))
    marks = [fetched(each.response).high_watermark for each in leader.all(SendReply)]
    assert marks == [2, 2]


def test_a_fetch_with_an_older_watermark_is_answered_at_once() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    request = fetch_request(offset=1, last_epoch=1, high_watermark=-1)
    assert fetched(leader.ask(request)).high_watermark == 1


def test_a_fetch_of_an_older_version_waits_for_records() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    request = fetch_request(offset=1, last_epoch=1, high_watermark=0x7FFFFFFFFFFFFFFF)
    assert leader.ask(request) is None


def test_a_parked_fetch_ends_after_its_time() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(replica=3, offset=1, last_epoch=1))
    leader.ask(fetch_request(replica=2, offset=1, last_epoch=1, high_watermark=1, wait_ms=50))
    leader.wait(49)
    assert leader.all(SendReply) == []
    leader.wait(1)
    assert leader.only(SendReply).records is None


# -- check-quorum


def test_a_leader_without_a_majority_resigns() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.wait(CHECK_QUORUM_MS - 1)
    assert leader.machine.is_leader
    leader.wait(1)
    assert leader.role == "Resigned"
    assert leader.only(LeadershipLost).epoch == 1


def test_fetches_and_snapshot_fetches_of_voters_renew_a_leadership() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(offset=1, last_epoch=1))
    leader.step(SnapshotWritten(MetadataSnapshotId(1, 1), 100))
    leader.wait(CHECK_QUORUM_MS - 1)
    leader.ask(snapshot_request(replica=3, snapshot=(1, 1)))
    leader.wait(CHECK_QUORUM_MS - 1)
    assert leader.machine.is_leader


def test_fetches_of_observers_do_not_renew_a_leadership() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.wait(CHECK_QUORUM_MS - 1)
    leader.ask(fetch_request(replica=9, offset=0))
    leader.wait(1)
    assert leader.role == "Resigned"


def test_a_request_with_the_leaders_own_id_does_not_renew_a_leadership() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(offset=1, last_epoch=1))
    leader.step(SnapshotWritten(MetadataSnapshotId(1, 1), 100))
    leader.wait(CHECK_QUORUM_MS - 1)
    leader.ask(snapshot_request(replica=1, snapshot=(1, 1)))
    leader.wait(1)
    assert leader.role == "Resigned"


def test_a_majority_of_five_needs_two_followers() -> None:
    leader = MachineDriver(voter_ids=(1, 2, 3, 4, 5))
    leader.wait(FETCH_MS)
    for epoch in (0, 1):
        leader.answer(2, vote_answer(epoch, granted=True))
        leader.answer(3, vote_answer(epoch, granted=True))
    assert leader.machine.is_leader
    leader.wait(CHECK_QUORUM_MS - 1)
    leader.ask(fetch_request(replica=2, offset=0))
    leader.wait(1)
    assert leader.role == "Resigned"


def test_the_only_voter_leads_for_ever() -> None:
    leader = MachineDriver(voter_ids=(1,))
    assert leader.machine.is_leader
    leader.wait(1000 * FETCH_MS)
    assert leader.machine.is_leader


def test_the_epoch_is_announced_to_voters_that_are_silent_for_half_a_fetch_timeout() -> None:
    leader = MachineDriver()
    leader.elect()
    assert sorted(leader.sent()) == [2, 3]
    assert all(isinstance(each, BeginQuorumEpochRequest) for each in leader.sent().values())
    leader.machine.replica.requests.clear()
    leader.wait(FETCH_MS / 4)
    leader.ask(fetch_request(replica=2, offset=0))
    leader.wait(FETCH_MS / 4)
    assert sorted(leader.sent()) == [3]


# -- DescribeQuorum


def test_caught_up_is_a_replica_at_the_end_or_at_the_end_of_its_last_fetch() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    role = leader.machine.replica.role
    assert isinstance(role, LeaderRole)
    leader.ask(fetch_request(offset=1, last_epoch=1))
    first_ms = leader.now_ms
    assert role.voters[2].caught_up_ms == first_ms
    leader.now_ms += 100
    leader.append()
    leader.ask(fetch_request(offset=1, last_epoch=1))
    assert role.voters[2].caught_up_ms == first_ms
    second_ms = leader.now_ms
    leader.now_ms += 100
    leader.append()
    leader.ask(fetch_request(offset=2, last_epoch=1))
    assert role.voters[2].caught_up_ms == second_ms


def test_a_fetch_counts_when_it_arrives_and_not_when_it_ends() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.ask(fetch_request(replica=2, offset=1, last_epoch=1))
    leader.ask(fetch_request(replica=2, offset=1, last_epoch=1, high_watermark=1))
    arrived_ms = leader.now_ms
    leader.now_ms += 100
    leader.append()
    role = leader.machine.replica.role
    assert isinstance(role, LeaderRole)
    assert role.voters[2].last_fetch_ms == arrived_ms


def test_the_description_has_the_end_and_the_contacts_of_each_replica() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.append()
    leader.ask(fetch_request(replica=2, offset=1, last_epoch=1))
    leader.ask(fetch_request(replica=9, offset=2, last_epoch=1))
    leader.now_ms += 40
    described = describe_quorum(leader.machine.replica, leader.now_ms, wall_ms=5000)
    assert described is not None
    assert (described.leader_id, described.epoch, described.high_watermark) == (1, 1, 1)
    lines = [(e.key.node_id, e.end_offset, *e[2:]) for e in described.voters]
    assert lines == [(1, 2, 5000, 5000), (2, 1, 4960, -1), (3, -1, -1, -1)]
    assert [(e.key.node_id, *e[1:]) for e in described.observers] == [(9, 2, 4960, 4960)]


def test_a_silent_observer_is_no_longer_described() -> None:
    leader = MachineDriver(kraft_version=0, voter_ids=(1,))
    leader.ask(fetch_request(replica=9, offset=1, last_epoch=1))
    leader.now_ms += OBSERVER_SESSION_MS
    described = describe_quorum(leader.machine.replica, leader.now_ms, wall_ms=5000)
    assert described is not None
    assert described.observers == ()


def test_only_the_leader_describes_the_quorum() -> None:
    assert describe_quorum(MachineDriver().machine.replica, 0, 0) is None


# -- voter sets


def voters_batch(offset: int, epoch: int, *ids: int) -> bytes:
    record = control_record(offset, 0, to_record(tuple(voter(node_id) for node_id in ids)))
    return build_batch([record], base_offset=offset, leader_epoch=epoch, control=True)


def test_a_voter_set_counts_from_its_append_on() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.step(LeaderAppended(voters_batch(3, 1, 1, 4, 5)))
    leader.ask(fetch_request(replica=2, offset=4, last_epoch=1))
    assert leader.machine.high_watermark == -1
    leader.ask(fetch_request(replica=4, offset=4, last_epoch=1))
    assert leader.machine.high_watermark == 4


def test_a_leader_outside_the_voter_set_does_not_count_itself() -> None:
    leader = MachineDriver()
    leader.elect()
    leader.step(LeaderAppended(voters_batch(3, 1, 2, 3)))
    leader.ask(fetch_request(replica=2, offset=4, last_epoch=1))
    assert leader.machine.high_watermark == -1
    leader.ask(fetch_request(replica=3, offset=4, last_epoch=1))
    assert leader.machine.high_watermark == 4


def test_a_new_voter_keeps_the_progress_that_it_had_as_observer() -> None:
    leader = MachineDriver(voter_ids=(1,))
    leader.ask(fetch_request(replica=4, offset=3, last_epoch=1))
    leader.step(LeaderAppended(voters_batch(3, 1, 1, 4)))
    role = leader.machine.replica.role
    assert isinstance(role, LeaderRole)
    assert role.voters[4].end_offset == 3
    assert role.observers == {}
