"""The quorum's files: quorum-state, snapshots, and what keeps it from starting."""

import json

import pytest
from quorum_world import ME, NoTransport, Still, make, records_of, snapshot

from penstock.broker.metadata.quorum_files import (
    METADATA_DIRECTORY,
    QUORUM_STATE,
    DiskQuorumFiles,
)
from penstock.broker.metadata.snapshot_files import (
    list_snapshots,
    read_snapshot,
)
from penstock.broker.metadata.stored_log import open_stored_log
from penstock.model import ZERO_ID
from penstock.raft.errors import NotAVoter, NotServedYet, QuorumError, QuorumFilesCorrupt
from penstock.raft.protocols import MetadataLog
from penstock.raft.quorum_state import QuorumState
from penstock.raft.snapshot import (
    RECORDS_PER_SLICE,
    MetadataSnapshotId,
)
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.testing.sim.disk import SimDisk
from penstock.wire.batch import (
    ATTRIBUTES,
    CONTROL,
    LEADER_EPOCH,
    Record,
    batch_headers,
    build_batch,
)

PATH = f"{METADATA_DIRECTORY}/{QUORUM_STATE}"


def files_of(disk: SimDisk) -> DiskQuorumFiles:
    return DiskQuorumFiles(disk, Still(), open_stored_log(disk, METADATA_DIRECTORY, Still()))


def test_the_state_is_written_as_kafka_does() -> None:
    disk = SimDisk(1)
    disk.make_directory(METADATA_DIRECTORY)
    files_of(disk).store_state_now(QuorumState(3, 1), (1,), 1)
    assert disk.files()[PATH] == (
        b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,'
        b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    files_of(disk).store_state_now(QuorumState(3, 1), (1,), 0)
    assert disk.files()[PATH] == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_the_state_is_read_back(kraft_version: int) -> None:
    disk = SimDisk(1)
    disk.make_directory(METADATA_DIRECTORY)
    state = QuorumState(7, 1, 2, ZERO_ID)
    files_of(disk).store_state_now(state, (1,), kraft_version)
    assert files_of(disk).load_state_now(may_be_empty=False, may_be_missing=False) == state


def test_a_damaged_state_stops_the_start_and_says_what_to_do() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    disk.put(PATH, b"{not json")
    with pytest.raises(QuorumFilesCorrupt, match="Restore its latest copy"):
        make(disk)[0].start()


def test_a_state_that_a_kill_left_empty_counts_as_none() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    disk.put(PATH, b"")
    quorum, _, _ = make(disk)
    quorum.start()
    assert quorum.epoch == 1


def test_an_empty_state_of_one_voter_among_several_is_damage() -> None:
    disk = SimDisk(1)
    disk.make_directory(METADATA_DIRECTORY)
    disk.put(PATH, b"")
    with pytest.raises(QuorumFilesCorrupt, match="could vote twice"):
        files_of(disk).load_state_now(may_be_empty=False, may_be_missing=False)


def test_one_voter_among_several_does_not_start_without_its_vote() -> None:
    disk = SimDisk(1)
    snapshot(disk, MetadataSnapshotId(10, 4), voters=(ME, QuorumVoter(2, b"e" * 16)))
    with pytest.raises(QuorumFilesCorrupt, match=f"{QUORUM_STATE} is missing.*vote twice"):
        make(disk)[0].start()


def test_each_start_takes_a_higher_epoch_even_if_the_state_is_lost() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    for expected in (1, 2, 3):
        quorum, _, _ = make(disk)
        quorum.start()
        assert quorum.epoch == expected
        assert json.loads(disk.files()[PATH])["leaderEpoch"] == expected
        disk.run_callbacks()
        quorum.stop()
    disk.remove_now(PATH)
    quorum, _, _ = make(disk)
    quorum.start()
    assert quorum.epoch == 4


def test_the_epoch_is_on_disk_before_a_record_of_it() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    quorum, _, _ = make(disk)
    quorum.start()
    after = disk.crash(5)
    assert json.loads(after.files()[PATH])["leaderEpoch"] == 1


def test_the_first_batch_of_an_epoch_names_its_leader() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    for _ in range(2):
        quorum, _, _ = make(disk)
        quorum.start()
        quorum.append([b"one", b"two"])
        disk.run_callbacks()
        quorum.stop()
    data = disk.files()[f"{METADATA_DIRECTORY}/00000000000000000000.log"]
    shape = [
        (header[LEADER_EPOCH], bool(header[ATTRIBUTES] & CONTROL))
        for _, header in batch_headers(data)
    ]
    assert shape == [(1, True), (1, False), (2, True), (2, False)]


def test_committed_is_what_is_synced_and_syncs_are_shared() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    quorum, watching, _ = make(disk)
    quorum.start()
    for _ in range(5):
        quorum.append([b"x"])
    assert quorum.committed_offset == 0
    disk.run_callbacks()
    assert quorum.committed_offset == quorum.end_offset == 8
    assert watching.commits == [3, 8], "one sync for the first, one for all the others"


def test_records_come_back_from_snapshot_and_log() -> None:
    disk = SimDisk(1)
    snapshot(disk, MetadataSnapshotId(10, 4), [b"a", b"b"])
    quorum, _, _ = make(disk)
    quorum.start()
    assert quorum.epoch == 5
    assert quorum.end_offset == 11
    quorum.append([b"c"])
    disk.run_callbacks()
    assert records_of(quorum) == [b"a", b"b", b"c"]
    quorum.stop()
    again, _, _ = make(disk)
    again.start()
    assert records_of(again) == [b"a", b"b", b"c"]


def test_a_failed_sync_ends_leadership() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    quorum, watching, failures = make(disk)
    quorum.start()
    disk.fail_sync(0)
    disk.run_callbacks()
    assert len(failures) == watching.losses == 1
    with pytest.raises(Exception, match="does not lead"):
        quorum.append([b"x"])


def test_the_voters_in_the_log_count_whatever_the_configuration_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NoTransport, "send", lambda *_request: None)
    monkeypatch.setattr(Still, "at", lambda *_timer: None)
    disk = SimDisk(1)
    snapshot(disk, voters=(ME, QuorumVoter(2, b"e" * 16)))
    quorum, _, _ = make(disk)
    quorum.start()
    assert (quorum.is_only_voter, quorum.leader_id) == (False, -1)


def test_static_voters_need_no_record_of_them() -> None:
    disk = SimDisk(1)
    quorum, _, _ = make(disk)
    quorum.start()
    assert quorum.describe().kraft_version == 0
    assert json.loads(disk.files()[PATH])["data_version"] == 0
    assert quorum.end_offset == 1


@pytest.mark.parametrize(
    ("voter", "error"),
    [(QuorumVoter(2, b"d" * 16), NotAVoter), (QuorumVoter(1, b"x" * 16), NotAVoter)],
)
def test_someone_else_may_not_use_the_log(voter: QuorumVoter, error: type[QuorumError]) -> None:
    disk = SimDisk(1)
    snapshot(disk)
    with pytest.raises(error):
        make(disk, me=voter)[0].start()


def test_a_newer_kraft_version_is_refused() -> None:
    disk = SimDisk(1)
    snapshot(disk, kraft_version=2)
    with pytest.raises(NotServedYet, match=r"kraft\.version 2"):
        make(disk)[0].start()


def test_new_endpoints_are_written_to_the_log() -> None:
    disk = SimDisk(1)
    snapshot(disk)
    quorum, _, _ = make(disk)
    quorum.start()
    disk.run_callbacks()
    quorum.stop()
    moved = QuorumVoter(1, ME.directory_id, (VoterEndpoint("CONTROLLER", "elsewhere", 1),))
    for expected in (6, 7):  # LeaderChange, KRaftVersion, Voters; then LeaderChange alone
        quorum, _, _ = make(disk, me=moved)
        quorum.start()
        assert quorum.end_offset == expected
        assert quorum.describe().voters == (moved,)
        disk.run_callbacks()
        quorum.stop()


def test_a_log_whose_beginning_nobody_has_is_refused() -> None:
    disk = SimDisk(1)
    path = snapshot(disk, MetadataSnapshotId(10, 4))
    quorum, _, _ = make(disk)
    quorum.start()
    disk.run_callbacks()
    quorum.stop()
    disk.remove_now(path)
    snapshot(disk)
    with pytest.raises(QuorumFilesCorrupt, match="starts at offset 10"):
        make(disk)[0].start()


def test_snapshots_are_read_back_in_batches() -> None:
    disk = SimDisk(1)
    values = [bytes([number % 251]) * 3 for number in range(RECORDS_PER_SLICE * 2 + 7)]
    snapshot_id = MetadataSnapshotId(77, 3)
    path = snapshot(disk, snapshot_id, values)
    found = read_snapshot(disk, path, snapshot_id)
    assert list(found.values) == values
    assert (found.timestamp_ms, found.kraft_version, found.voters) == (5, 1, (ME,))
    assert list_snapshots(disk, METADATA_DIRECTORY) == [snapshot_id]
    assert len(list(batch_headers(disk.files()[path]))) == 5


def test_a_snapshot_cut_anywhere_is_not_a_snapshot() -> None:
    disk = SimDisk(1)
    snapshot_id = MetadataSnapshotId(77, 3)
    path = snapshot(disk, snapshot_id, [b"abc"] * 20)
    data = disk.files()[path]
    for size in range(0, len(data), 7):
        disk.put(path, data[:size])
        with pytest.raises(QuorumFilesCorrupt):
            read_snapshot(disk, path, snapshot_id)


def test_a_snapshot_with_a_flipped_bit_is_not_a_snapshot() -> None:
    disk = SimDisk(1)
    snapshot_id = MetadataSnapshotId(77, 3)
    path = snapshot(disk, snapshot_id, [b"abc"] * 5)
    data = disk.files()[path]
    for position in range(21, len(data), 11):
        disk.put(path, data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        try:
            found = read_snapshot(disk, path, snapshot_id)
        except QuorumFilesCorrupt:
            continue
        assert list(found.values) == [b"abc"] * 5, "only offsets lie outside of the checksum"


def test_the_stored_log_is_what_the_quorum_needs() -> None:
    disk = SimDisk(1)
    disk.make_directory(METADATA_DIRECTORY)
    log: MetadataLog = open_stored_log(disk, METADATA_DIRECTORY, Still())(None)
    assert (log.start_offset, log.end_offset, log.read_now(0, 100)) == (0, 0, b"")


def test_a_log_torn_below_a_snapshot_begins_again_behind_it() -> None:
    disk = SimDisk(1)
    disk.make_directory(METADATA_DIRECTORY)
    log = open_stored_log(disk, METADATA_DIRECTORY, Still())(None)
    first = build_batch([Record(0, 0, None, b"a")], base_offset=0, leader_epoch=1)
    log.append(first)
    log.append(build_batch([Record(1, 0, None, b"b")], base_offset=1, leader_epoch=1))
    path = f"{METADATA_DIRECTORY}/00000000000000000000.log"
    disk.corrupt(path, len(first) + 30, b"torn by a loss of power")
    opened = open_stored_log(disk, METADATA_DIRECTORY, Still())(MetadataSnapshotId(2, 1))
    assert (opened.start_offset, opened.end_offset) == (2, 2)


def test_a_log_of_another_epoch_goes_and_the_snapshot_stays() -> None:
    disk = SimDisk(1)
    path = snapshot(disk, MetadataSnapshotId(1, 2), [b"a"])
    log = open_stored_log(disk, METADATA_DIRECTORY, Still())(None)
    log.append(build_batch([Record(0, 0, None, b"a")], base_offset=0, leader_epoch=1))
    opened = open_stored_log(disk, METADATA_DIRECTORY, Still())(MetadataSnapshotId(1, 2))
    assert (opened.start_offset, opened.epoch_starts()) == (1, [])
    assert disk.exists(path)
