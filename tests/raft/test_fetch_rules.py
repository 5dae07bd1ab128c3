"""Positions of fetches: valid, diverging, or in a snapshot only; truncation; snapshots."""

from typing import Any

import pytest
from machine_driver import (
    MachineDriver,
    batch_of,
    begin_request,
    fetch_answer,
    fetch_request,
    fetched,
    log_of,
    sliced,
    snapshot_answer,
    snapshot_request,
    voter,
)

from penstock.errors import (
    InconsistentClusterId,
    InvalidRequest,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownServerError,
)
from penstock.model import ZERO_ID
from penstock.raft.errors import CommittedTruncation
from penstock.raft.fetch_rules import judge_position, truncation_offset
from penstock.raft.log_view import (
    BOOTSTRAP_SNAPSHOT,
    EpochEnd,
    EpochStart,
    LogView,
    StoredSnapshot,
    continues_snapshot,
)
from penstock.raft.quorum_effects import (
    AppendBatches,
    CutLog,
    DropDownload,
    HighWatermarkMoved,
    InstallSnapshot,
    SendReply,
    SendRequest,
    SnapshotRange,
    StoreSlice,
    TruncateLog,
)
from penstock.raft.quorum_events import SnapshotInstalled, SnapshotWritten
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.wire.messages.k01_fetch import EpochEndOffset, FetchRequest, SnapshotId
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest

VALID = (None, None)


def cut_log() -> LogView:
    """Return a log of epochs 2, 3 and 5 that begins at 20, with snapshots at 20 and 40."""
    log = LogView(
        20,
        60,
        [EpochStart(2, 20), EpochStart(3, 30), EpochStart(5, 50)],
        [
            StoredSnapshot(MetadataSnapshotId(20, 2), 100),
            StoredSnapshot(MetadataSnapshotId(40, 3), 100),
        ],
    )
    log.synced_offset = 60
    return log


NEWEST = (None, MetadataSnapshotId(40, 3))


@pytest.mark.parametrize(
    ("offset", "epoch", "verdict"),
    [
        (60, 5, VALID),
        (55, 5, VALID),
        (50, 3, VALID),
        (20, 2, VALID),
        (0, 0, NEWEST),  # an empty log gets the snapshot
        (19, 2, NEWEST),  # below the start
        (20, 1, NEWEST),  # at the start, in another epoch
        (30, 1, NEWEST),  # an epoch below that of the oldest snapshot
        (61, 5, (EpochEnd(5, 60), None)),
        (51, 3, (EpochEnd(3, 50), None)),
        (55, 4, (EpochEnd(3, 50), None)),  # an epoch that this log does not have
        (60, 7, (EpochEnd(5, 60), None)),  # an epoch above all
    ],
)
def test_a_position_is_judged_by_offset_and_last_epoch(
    offset: int, epoch: int, verdict: tuple[EpochEnd | None, MetadataSnapshotId | None]
) -> None:
    assert tuple(judge_position(cut_log(), offset, epoch)) == verdict


def test_an_empty_log_starts_at_offset_0_beside_the_bootstrap_snapshot() -> None:
    log = LogView(0, 9, [EpochStart(1, 0)], [StoredSnapshot(BOOTSTRAP_SNAPSHOT, 10)])
    assert judge_position(log, 0, 0).is_valid


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [
        (EpochEnd(3, 45), 45),  # the leader's end of an epoch that is known
        (EpochEnd(3, 99), 50),  # the own end of it is smaller
        (EpochEnd(4, 55), 50),  # an unknown epoch: the end of the next smaller one
        (EpochEnd(0, 25), 25),
    ],
)
def test_a_follower_truncates_to_the_smaller_end_of_the_epoch(
    diverging: EpochEnd, offset: int
) -> None:
    assert truncation_offset(cut_log(), diverging, committed=20) == offset


def test_committed_records_are_never_truncated() -> None:
    with pytest.raises(CommittedTruncation):
        truncation_offset(cut_log(), EpochEnd(3, 45), committed=46)


@pytest.mark.parametrize(
    "wrong",
    [
        {"last_epoch": 2},
        {"last_epoch": -1},
        {"offset": -1},
        {"wait_ms": -1},
    ],
)
def test_a_wrong_fetch_is_an_invalid_request(wrong: dict[str, Any]) -> None:
    leader = MachineDriver()
    leader.elect()
    assert fetched(leader.ask(fetch_request(**wrong))).error_code == InvalidRequest.code


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"cluster": "another"}, InconsistentClusterId.code),
        ({"partition": 1}, InvalidRequest.code),
        ({"topic_id": b"x" * 16}, InvalidRequest.code),
        ({"topic_id": ZERO_ID}, InvalidRequest.code),
    ],
)
def test_a_fetch_of_another_cluster_or_topic_is_rejected(wrong: dict[str, Any], code: int) -> None:
    leader = MachineDriver()
    leader.elect()
    leader.ask(fetch_request(**wrong))
    reply = leader.only(SendReply).response
    assert reply.error_code == code


def test_a_fetch_with_the_id_of_the_leader_is_rejected() -> None:
    leader = MachineDriver()
    leader.elect()
    reply = leader.ask(fetch_request(replica=1, offset=0))
    assert fetched(reply).error_code == UnknownServerError.code


def test_a_diverging_fetch_does_not_count() -> None:
    leader = MachineDriver(log=log_of((1, 0), end=10))
    leader.elect()
    reply = fetched(leader.ask(fetch_request(epoch=2, offset=50, last_epoch=1)))
    assert (reply.diverging_epoch.epoch, reply.diverging_epoch.end_offset) == (1, 10)
    assert leader.machine.high_watermark == -1


# -- the follower


def follower(log: LogView | None = None, **options: Any) -> MachineDriver:
    replica = MachineDriver(log=log, stored=QuorumState(leader_epoch=4), **options)
    replica.ask(begin_request(leader=2, epoch=5))
    return replica


def test_a_fetch_names_the_end_of_the_log_its_epoch_and_the_watermark() -> None:
    replica = follower(log_of((1, 0), (4, 6), end=9))
    request = replica.sent()[2]
    assert isinstance(request, FetchRequest)
    partition = request.topics[0].partitions[0]
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (9, 4)
    assert (partition.current_leader_epoch, partition.high_watermark) == (5, -1)


def test_fetched_batches_are_appended_and_committed_up_to_their_end() -> None:
    replica = follower()
    data = batch_of(0, 5) + batch_of(1, 5)
    replica.answer(2, fetch_answer(2, 5, records=data, high_watermark=9))
    assert bytes(replica.only(AppendBatches).data) == data
    assert replica.only(HighWatermarkMoved).offset == 2


def test_a_voter_syncs_before_its_next_fetch() -> None:
    replica = follower(hold_syncs=True)
    replica.answer(2, fetch_answer(2, 5, records=batch_of(0, 5)))
    assert replica.all(SendRequest) == []
    replica.sync()
    assert list(replica.sent()) == [2]


def test_a_batch_of_a_newer_epoch_than_the_leaders_is_left_out() -> None:
    replica = follower()
    data = batch_of(0, 5) + batch_of(1, 6)
    replica.answer(2, fetch_answer(2, 5, records=data))
    assert replica.machine.end_offset == 1


def test_a_damaged_batch_ends_the_append() -> None:
    replica = follower()
    second = bytearray(batch_of(1, 5))
    second[-1] ^= 1
    replica.answer(2, fetch_answer(2, 5, records=batch_of(0, 5) + bytes(second)))
    assert replica.machine.end_offset == 1


def test_records_that_do_not_continue_the_log_are_followed_by_a_pause() -> None:
    replica = follower()
    replica.answer(2, fetch_answer(2, 5, records=batch_of(7, 5)))
    assert replica.machine.end_offset == 0
    assert 2 not in replica.sent()


def test_a_diverging_epoch_truncates_the_log_and_the_next_fetch_asks_there() -> None:
    replica = follower(log_of((1, 0), (4, 6), end=9))
    diverging = EpochEndOffset(epoch=1, end_offset=5)
    replica.answer(2, fetch_answer(2, 5, diverging_epoch=diverging))
    assert replica.only(TruncateLog).offset == 5
    request = replica.sent()[2]
    assert isinstance(request, FetchRequest)
    partition = request.topics[0].partitions[0]
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (5, 1)


def test_truncation_undoes_what_a_sync_in_flight_covers() -> None:
    replica = follower(log_of((1, 0), (4, 6), end=9), hold_syncs=True)
    replica.machine.replica.log.synced_offset = 0
    replica.machine.replica.truncate_log(5)
    replica.sync()
    assert replica.machine.replica.log.synced_offset == 5


# -- snapshots of the leader


def leader_with_snapshots() -> MachineDriver:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    for _ in range(4):
        leader.append()
    leader.ask(fetch_request(offset=5, last_epoch=1))
    leader.step(SnapshotWritten(MetadataSnapshotId(5, 1), 100))
    return leader


def test_an_empty_replica_gets_the_snapshot() -> None:
    reply = fetched(leader_with_snapshots().ask(fetch_request(replica=9, offset=0)))
    assert (reply.snapshot_id.end_offset, reply.snapshot_id.epoch) == (5, 1)


def test_a_slice_of_a_snapshot_names_size_and_position() -> None:
    leader = leader_with_snapshots()
    reply = sliced(leader.ask(snapshot_request(position=60)))
    assert (reply.error_code, reply.size, reply.position) == (0, 100, 60)
    records = leader.only(SendReply).records
    assert records == SnapshotRange(MetadataSnapshotId(5, 1), 60, 1024 * 1024)


@pytest.mark.parametrize("position", [-1, 100, 101])
def test_a_position_outside_the_snapshot_is_rejected(position: int) -> None:
    reply = sliced(leader_with_snapshots().ask(snapshot_request(position=position)))
    assert reply.error_code == PositionOutOfRange.code


def test_an_unknown_snapshot_is_not_found() -> None:
    reply = sliced(leader_with_snapshots().ask(snapshot_request(snapshot=(4, 1))))
    assert reply.error_code == SnapshotNotFound.code


def test_the_bootstrap_snapshot_never_leaves_its_node() -> None:
    leader = MachineDriver(log=LogView(0, 0, [], [StoredSnapshot(BOOTSTRAP_SNAPSHOT, 100)]))
    leader.elect()
    reply = sliced(leader.ask(snapshot_request(snapshot=(0, 0))))
    assert reply.error_code == SnapshotNotFound.code


def test_the_log_is_cut_up_to_the_older_of_two_snapshots() -> None:
    leader = leader_with_snapshots()
    assert leader.machine.replica.log.start_offset == 5
    leader.append()
    leader.append()
    leader.ask(fetch_request(offset=7, last_epoch=1))
    leader.step(SnapshotWritten(MetadataSnapshotId(7, 1), 100))
    assert leader.only(CutLog) == CutLog(5, ())


def test_a_snapshot_of_uncommitted_records_is_a_fault() -> None:
    leader = MachineDriver(kraft_version=0)
    leader.elect()
    leader.append()
    with pytest.raises(AssertionError, match="committed"):
        leader.step(SnapshotWritten(MetadataSnapshotId(2, 1), 100))


def test_the_next_snapshot_ends_at_the_watermark_in_the_epoch_before_it() -> None:
    leader = MachineDriver(kraft_version=0, log=log_of((1, 0), end=10))
    leader.elect()
    assert leader.machine.next_snapshot_id() is None
    leader.ask(fetch_request(epoch=2, offset=11, last_epoch=2))
    assert leader.machine.next_snapshot_id() == MetadataSnapshotId(11, 2)


# -- downloads


def downloading() -> MachineDriver:
    replica = follower()
    snapshot_id = SnapshotId(end_offset=5, epoch=3)
    replica.answer(2, fetch_answer(2, 5, snapshot_id=snapshot_id))
    return replica


def position_of(replica: MachineDriver) -> int:
    request = replica.sent()[2]
    assert isinstance(request, FetchSnapshotRequest)
    return request.topics[0].partitions[0].position


def test_a_download_goes_on_where_it_is_until_it_is_complete() -> None:
    replica = downloading()
    assert position_of(replica) == 0
    replica.answer(2, snapshot_answer(2, 5, (5, 3), 6, 0, b"abcd"))
    assert replica.only(StoreSlice).position == 0
    assert position_of(replica) == 4
    replica.answer(2, snapshot_answer(2, 5, (5, 3), 6, 4, b"ef"))
    assert replica.only(InstallSnapshot).snapshot_id == (5, 3)
    assert replica.sent() == {}


def test_an_installed_snapshot_is_the_start_and_the_watermark_of_the_log() -> None:
    replica = downloading()
    replica.answer(2, snapshot_answer(2, 5, (5, 3), 4, 0, b"abcd"))
    voters = tuple(voter(node_id) for node_id in (1, 2, 4))
    replica.step(SnapshotInstalled(MetadataSnapshotId(5, 3), 4, 1, voters))
    assert replica.only(HighWatermarkMoved).offset == 5
    assert replica.history.latest == voters
    request = replica.sent()[2]
    assert isinstance(request, FetchRequest)
    partition = request.topics[0].partitions[0]
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (5, 3)


def test_no_election_begins_while_a_snapshot_is_installed() -> None:
    replica = downloading()
    replica.answer(2, snapshot_answer(2, 5, (5, 3), 4, 0, b"abcd"))
    replica.wait(100_000)
    assert replica.role == "Follower"


def test_a_snapshot_that_is_gone_ends_the_download() -> None:
    replica = downloading()
    gone = snapshot_answer(2, 5, (-1, -1), 0, 0, b"")
    gone.topics[0].partitions[0].error_code = SnapshotNotFound.code
    replica.answer(2, gone)
    assert replica.only(DropDownload).snapshot_id == (5, 3)
    assert isinstance(replica.sent()[2], FetchRequest)


def test_a_download_beyond_the_end_of_the_snapshot_begins_again_after_a_moment() -> None:
    replica = downloading()
    replica.answer(2, snapshot_answer(2, 5, (5, 3), 6, 0, b"abcd"))
    beyond = snapshot_answer(2, 5, (-1, -1), 0, 0, b"")
    beyond.topics[0].partitions[0].error_code = PositionOutOfRange.code
    replica.answer(2, beyond)
    assert replica.only(DropDownload).snapshot_id == (5, 3)
    assert 2 not in replica.sent()
    replica.answer(3, fetch_answer(2, 5, error_code=NotLeaderOrFollower.code))
    replica.wait(20)
    assert isinstance(replica.sent()[2], FetchRequest)


def test_another_leader_ends_the_download() -> None:
    replica = downloading()
    replica.ask(begin_request(leader=3, epoch=6))
    assert replica.only(DropDownload).snapshot_id == (5, 3)


@pytest.mark.parametrize(
    ("snapshot", "position", "data"),
    [((6, 3), 0, b"ab"), ((5, 3), 1, b"ab"), ((5, 3), 0, b""), ((5, 3), 0, b"abcdefg")],
)
def test_a_wrong_slice_is_dropped(snapshot: tuple[int, int], position: int, data: bytes) -> None:
    replica = downloading()
    replica.answer(2, snapshot_answer(2, 5, snapshot, 6, position, data))
    assert replica.all(StoreSlice) == []
    replica.answer(3, fetch_answer(2, 5, error_code=NotLeaderOrFollower.code))
    replica.wait(20)
    assert position_of(replica) == 0


# -- a log found at start


@pytest.mark.parametrize(
    ("snapshot_id", "continues"),
    [
        (MetadataSnapshotId(40, 3), True),
        (MetadataSnapshotId(40, 2), False),  # another record ends at the snapshot's end
        (MetadataSnapshotId(61, 5), False),  # the log ends earlier
        (MetadataSnapshotId(19, 2), False),  # the log begins later
        (MetadataSnapshotId(20, 2), True),
        (MetadataSnapshotId(20, 4), False),  # records of an older epoch follow the snapshot
    ],
)
def test_a_log_continues_the_snapshot_whose_last_record_it_holds(
    snapshot_id: MetadataSnapshotId, continues: bool
) -> None:
    assert continues_snapshot(cut_log(), snapshot_id) is continues
