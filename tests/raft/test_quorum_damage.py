"""Rotten metadata, a truncation of committed records that a leader asks for, a full disk."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from machine_driver import MachineDriver, begin_request, fetch_answer
from metadata_cluster import MetadataCluster, MetadataNode
from quorum_world import make, records_of, snapshot

from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.raft.errors import CommittedTruncation, QuorumFilesCorrupt
from penstock.raft.log_view import EpochStart, LogView, StoredSnapshot
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.testing.sim.disk import SimDisk
from penstock.wire.messages.k01_fetch import EpochEndOffset, FetchRequest

LOG = f"{METADATA_DIRECTORY}/{0:020d}.log"
LENGTH_POSITION = 8  # in the header of a batch


def flipped(data: bytes, position: int) -> bytes:
    return bytes([data[position] ^ 0x10])


@pytest.mark.parametrize("position", [-1, LENGTH_POSITION])
def test_a_rotten_record_is_not_replayed(position: int) -> None:
    disk = SimDisk(1)
    snapshot(disk)
    quorum, _, _ = make(disk)
    quorum.start()
    begin = len(disk.files()[LOG])
    quorum.append([b"a record"])
    data = disk.files()[LOG]
    found = len(data) + position if position < 0 else begin + position
    disk.corrupt(LOG, found, flipped(data, found))
    with pytest.raises(QuorumFilesCorrupt, match="Repair the disk"):
        records_of(quorum)


def follower_of(cluster: MetadataCluster) -> MetadataNode:
    return next(each for each in cluster.live if each is not cluster.active)


def test_a_node_that_reads_rotten_metadata_gives_up_with_the_reason() -> None:
    cluster = MetadataCluster(2)
    cluster.run(0)
    node = follower_of(cluster)
    assert node.metadata is not None
    log: Any = node.metadata._quorum._log
    read: Callable[[int, int], bytes] = log.read
    log.read = lambda offset, size: (data := read(offset, size))[:-1] + flipped(data, -1)
    cluster.propose()
    with pytest.raises(AssertionError, match=f"{node.name}: The metadata log in .* is damaged"):
        cluster.simulation.run_for(1_000)


def test_a_node_asked_to_truncate_committed_records_gives_up_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MetadataCluster(2)
    cluster.run(0)
    node = follower_of(cluster)
    assert node.metadata is not None
    leader, epoch = node.metadata.active_controller

    def diverge(
        _id: int,
        _endpoint: object,
        request: QuorumRequest,
        _ms: float,
        answered: Callable[[QuorumResponse | None], None],
    ) -> None:
        if isinstance(request, FetchRequest):
            diverging = EpochEndOffset(epoch=0, end_offset=0)
            answer = fetch_answer(leader, epoch, diverging_epoch=diverging)
            node.world.timers.soon(lambda: answered(answer))

    monkeypatch.setattr(node, "send", diverge)
    with pytest.raises(AssertionError, match=f"{node.name}: The leader asks for a truncation"):
        cluster.simulation.run_for(1_000)


@pytest.mark.parametrize("end_offset", [-1, 20])
def test_records_of_a_snapshot_are_never_truncated(end_offset: int) -> None:
    epochs = [EpochStart(1, 0), EpochStart(2, 30)]
    log = LogView(0, 40, epochs, [StoredSnapshot(MetadataSnapshotId(30, 1), 100)])
    restarted = MachineDriver(log=log)
    restarted.ask(begin_request(epoch=3))
    diverging = EpochEndOffset(epoch=1, end_offset=end_offset)
    with pytest.raises(CommittedTruncation):
        restarted.answer(2, fetch_answer(2, 3, diverging_epoch=diverging))


def test_a_full_disk_is_named_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    cluster = MetadataCluster(2)
    cluster.run(0)
    follower_of(cluster).world.disk("data").is_full = True
    cluster.propose()
    with caplog.at_level(logging.WARNING, "penstock.quorum"):
        cluster.simulation.run_for(2_000)
    assert caplog.text.count("waits for room") == 1
