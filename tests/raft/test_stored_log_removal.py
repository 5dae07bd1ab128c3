"""What a snapshot has made superfluous of the metadata log leaves the disk as a whole."""

from penstock.broker.metadata.stored_log import StoredLog
from penstock.log.config import LogConfig
from penstock.log.directory import DELETED, LOG, segment_file
from penstock.testing.sim.disk import SimDisk
from penstock.testing.sim.world import Simulation, SimWorld
from penstock.wire.batch import Record, build_batch
from penstock.world import DiskFailed

DIRECTORY = "__cluster_metadata-0"


def test_nothing_of_a_segment_that_a_snapshot_covers_is_left() -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    clock = SimWorld(Simulation(1)).clock
    stored = StoredLog(disk, DIRECTORY, LogConfig(segment_bytes=500), clock, None)
    for offset in range(20):
        record = Record(offset, 0, None, b"x" * 100)
        stored.append(build_batch([record], base_offset=offset, leader_epoch=1))
    stored.delete_before(20)
    disk.run_callbacks()
    segments = [name for name in disk.list(DIRECTORY) if name[0] == "0"]
    assert segments == [f"{20:020d}.log", f"{20:020d}.snapshot"]
    assert stored.start_offset == 20


def test_a_flush_overtaken_by_the_removal_of_old_segments_succeeds() -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    stored = StoredLog(disk, DIRECTORY, LogConfig(), SimWorld(Simulation(1)).clock, None)
    stored.append(build_batch([Record(0, 0, None, b"x")], base_offset=0, leader_epoch=1))
    stored.delete_before(1)
    first = segment_file(DIRECTORY, 0, LOG)
    disk.rename_now(first, first + DELETED)
    said: list[DiskFailed | None] = []
    stored.flush(said.append)
    disk.run_callbacks()
    assert said == [None]


def test_a_log_that_is_being_truncated_keeps_its_segments() -> None:
    disk = SimDisk()
    disk.make_directory(DIRECTORY)
    stored = StoredLog(disk, DIRECTORY, LogConfig(), SimWorld(Simulation(1)).clock, None)
    for offset in range(3):
        record = Record(offset, 0, None, b"x")
        stored.append(build_batch([record], base_offset=offset, leader_epoch=1))
    disk.run_callbacks()
    stored.truncate(2, lambda _: None)
    stored.delete_before(1)
    disk.run_callbacks()
    assert (stored.start_offset, stored.end_offset) == (0, 2)
