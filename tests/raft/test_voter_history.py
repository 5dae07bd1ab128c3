"""Voter sets by offset, and the view of the log that they follow."""

import pytest
from machine_driver import directory, voter

from penstock.raft.leader_change import leader_change_messages
from penstock.raft.log_view import EpochEnd, EpochStart, LogView, StoredSnapshot
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import QuorumVoter, VoterEndpoint, Voters, to_record
from penstock.wire.records.quorum import KRaftVersionRecord, LeaderChangeMessage, VotersRecord


def voters(*ids: int) -> Voters:
    return tuple(voter(node_id) for node_id in ids)


def history() -> VoterHistory:
    """Return a history with voters 1-3 from offset 2 on and 1-4 from offset 9 on."""
    result = VoterHistory()
    messages = (LeaderChangeMessage(), KRaftVersionRecord(kraft_version=1))
    result.add_all(0, (*messages, to_record(voters(1, 2, 3))))
    result.add_all(9, [to_record(voters(1, 2, 3, 4))])
    return result


def test_the_last_record_counts_from_its_append_on() -> None:
    assert history().latest == voters(1, 2, 3, 4)
    assert history().kraft_version == 1


def test_truncation_undoes_a_voter_set() -> None:
    known = history()
    known.truncate(10)
    assert known.latest == voters(1, 2, 3, 4)
    known.truncate(9)
    assert known.latest == voters(1, 2, 3)
    known.truncate(0)
    assert (known.latest, known.kraft_version) == ((), 0)


def test_truncation_goes_back_to_the_configured_voters() -> None:
    known = VoterHistory(configured=voters(7, 8))
    known.add(3, to_record(voters(1)))
    known.truncate(3)
    assert known.latest == voters(7, 8)


def test_a_snapshot_names_the_voters_before_its_end() -> None:
    known = history()
    assert known.voters_before(9) == voters(1, 2, 3)
    assert known.voters_before(10) == voters(1, 2, 3, 4)
    assert known.kraft_version_before(1) == 0
    assert known.kraft_version_before(2) == 1


def test_the_last_set_before_the_start_of_the_log_is_kept() -> None:
    known = history()
    known.forget_before(5)
    assert known.voters_before(6) == voters(1, 2, 3)
    known.forget_before(20)
    assert known.latest == voters(1, 2, 3, 4)


def test_a_snapshot_replaces_the_history() -> None:
    known = history()
    known.load(30, 1, voters(5))
    assert known.latest == voters(5)
    assert known.latest_entry.offset == 29


def test_a_voter_is_known_by_id_and_directory() -> None:
    known = history()
    assert known.is_voter(ReplicaKey(4, directory(4)))
    assert not known.is_voter(ReplicaKey(4, directory(5)))
    assert not known.is_voter(ReplicaKey(9, directory(9)))


def test_a_configured_voter_is_known_by_its_id() -> None:
    known = VoterHistory(configured=(QuorumVoter(1, bytes(16)),))
    assert known.is_voter(ReplicaKey(1, directory(1)))


# -- the first batch of an epoch


def test_the_voters_are_written_once() -> None:
    assert len(leader_change_messages(voter(1), history(), [1, 2])) == 1


def test_a_leader_that_listens_elsewhere_writes_the_voters_again() -> None:
    moved = QuorumVoter(1, directory(1), (VoterEndpoint("CONTROLLER", "elsewhere", 1),))
    _, _, record = leader_change_messages(moved, history(), [1])
    assert isinstance(record, VotersRecord)
    assert [each.endpoints[0].host for each in record.voters][:2] == ["elsewhere", "node-2"]


# -- the view of the log


def view() -> LogView:
    return LogView(0, 30, [EpochStart(1, 0), EpochStart(3, 10), EpochStart(4, 20)])


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(0, (0, 0)), (1, (1, 10)), (2, (1, 10)), (3, (3, 20)), (4, (4, 30)), (9, (4, 30))],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(epoch: int, end: tuple[int, int]) -> None:
    assert view().end_of_epoch(epoch) == EpochEnd(*end)


@pytest.mark.parametrize(
    ("offset", "end"), [(30, (4, 30)), (20, (3, 20)), (11, (3, 11)), (10, (1, 10)), (0, (0, 0))]
)
def test_truncation_drops_epochs_that_begin_behind_it(offset: int, end: tuple[int, int]) -> None:
    log = view()
    log.truncate(offset)
    assert log.end == EpochEnd(*end)


def test_a_cut_keeps_the_epoch_of_the_first_record() -> None:
    log = view()
    log.snapshots.append(StoredSnapshot(MetadataSnapshotId(15, 3), 1))
    log.cut(15)
    assert log.epochs == [EpochStart(3, 15), EpochStart(4, 20)]
    assert log.end_of_epoch(1) == EpochEnd(3, 15)


def test_an_empty_log_has_the_epoch_of_its_snapshot() -> None:
    log = view()
    log.begin_at(StoredSnapshot(MetadataSnapshotId(50, 6), 1))
    assert log.end == EpochEnd(6, 50)
    assert log.synced_offset == 50


def test_the_epoch_before_an_offset_is_that_of_the_last_record() -> None:
    log = view()
    assert [log.epoch_before(offset) for offset in (1, 10, 11, 20, 21, 30)] == [1, 1, 3, 3, 4, 4]
