"""A topic that is deleted while batches of it are on their way: they are told so, and nobody is
sent to look for files that went with it."""

from collections.abc import Callable, Sequence

import pytest
from leadership import image_of
from simulated_node import PRODUCE, Bench, produce, replies

from penstock.broker.network.connection import BrokerConnection
from penstock.broker.partitions.partition import Partition
from penstock.controller.delta import Delta
from penstock.coordinator.records import EndMarker
from penstock.errors import NotLeaderOrFollower, UnknownTopicOrPartition
from penstock.testing.sim.world import WorldDisk
from penstock.wire.batch import HEADER, Record, build_batch
from penstock.world import Done, File, FileLost

ALARM = "restore the file from a copy"


def bench_with(*topics: str, partitions: int = 1) -> Bench:
    bench = Bench({"log.durability": "fsync", "log.segment.delete.delay.ms": "1000"})
    for name in topics:
        bench.create_topic(name, partitions)
    return bench


def delete(bench: Bench, partition: Partition) -> None:
    """As the image that is committed in this turn has it."""
    gone = Delta(deleted_topics=((partition.topic, partition.topic_id),))
    bench.broker.replicas.follow(bench.broker.image, gone)


def send(
    bench: Bench, connection: BrokerConnection, topic: str, index: int = 0
) -> Callable[[], None]:
    frame = bench.frame(PRODUCE, produce(topic, b"x", index))
    return lambda: connection.received(memoryview(frame))


def codes(bench: Bench, peer: object, count: int = 1) -> list[int]:
    bench.settle(3_000)
    answers = replies(peer, [PRODUCE] * count)  # type: ignore[arg-type]
    return [each.responses[0].partition_responses[0].error_code for each in answers]


def disk_of(bench: Bench) -> WorldDisk:
    return bench.world.disks["data"]


def test_a_batch_of_the_turn_in_which_its_topic_goes_is_refused() -> None:
    bench = bench_with("t")
    partition = bench.broker.find("t", 0)
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"), lambda: delete(bench, partition))
    assert codes(bench, peer) == [UnknownTopicOrPartition.code]
    assert partition.log.end_offset == 0


def test_a_file_that_went_with_its_topic_raises_no_alarm(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_with("t")
    partition = bench.broker.find("t", 0)

    def lost(_parts: Sequence[object]) -> None:
        raise FileLost("cannot open t-0: No such file or directory")

    monkeypatch.setattr(type(partition.log.active.file), "append", lambda _self, it: lost(it))
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"), lambda: delete(bench, partition))
    assert codes(bench, peer) == [UnknownTopicOrPartition.code]
    assert ALARM not in caplog.text


def test_a_batch_of_the_turn_in_which_the_leadership_ends_is_refused() -> None:
    bench = bench_with("t")
    partition = bench.broker.find("t", 0)
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"), lambda: partition.follow(image_of(partition, 1, (2,))))
    assert codes(bench, peer) == [NotLeaderOrFollower.code]
    assert partition.log.end_offset == 0


def test_what_was_held_for_a_move_is_told_that_its_topic_is_gone() -> None:
    bench = bench_with("t")
    partition = bench.broker.find("t", 0)
    partition.held = True
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"))
    delete(bench, partition)
    partition.release_held(bench.broker.touch_partition)
    assert codes(bench, peer) == [UnknownTopicOrPartition.code]


def test_what_is_held_when_its_topic_goes_waits_for_nothing() -> None:
    bench = bench_with("t")
    partition = bench.broker.find("t", 0)
    partition.held = True
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"), lambda: delete(bench, partition))
    assert codes(bench, peer) == [UnknownTopicOrPartition.code]


def test_neither_markers_nor_own_records_are_written_to_what_is_gone() -> None:
    bench = bench_with("t")
    partition = bench.broker.find("t", 0)
    delete(bench, partition)
    batch = build_batch([Record(0, 0, b"k", b"v")])
    with pytest.raises(UnknownTopicOrPartition):
        partition.append_own(batch, HEADER.unpack_from(batch), 0)
    with pytest.raises(UnknownTopicOrPartition):
        partition.append_marker(EndMarker(7, 0, 0, True, True), 0)


def test_a_round_of_syncs_passes_over_what_was_deleted(caplog: pytest.LogCaptureFixture) -> None:
    bench = bench_with("t", partitions=2)
    first = bench.broker.find("t", 0)
    connection, _ = bench.connect()
    bench.turn(send(bench, connection, "t", 0))  # a round begins
    bench.turn(send(bench, connection, "t", 1))  # and the next one waits for it
    delete(bench, first)
    bench.settle(3_000)
    assert ALARM not in caplog.text


def lose_in_sync(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Done]:
    """The next round loses files; it ends when the test says so."""
    waiting: list[Done] = []
    disk = disk_of(bench)

    def sync_files(_files: Sequence[File], done: Done) -> None:
        monkeypatch.undo()
        waiting.append(lambda _failure: done(FileLost("cannot sync t-0: no such file")))

    monkeypatch.setattr(disk, "sync_files", sync_files)
    return waiting


def test_files_of_a_deleted_topic_that_a_round_misses_raise_no_alarm(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_with("t", "other")
    doomed, other = bench.broker.find("t", 0), bench.broker.find("other", 0)
    waiting = lose_in_sync(bench, monkeypatch)
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"), send(bench, connection, "other"))
    bench.turn(lambda: delete(bench, doomed))
    bench.settle(100)
    waiting[0](None)
    assert codes(bench, peer, 2) == [UnknownTopicOrPartition.code, 0]
    assert other.log.synced_offset == 1
    assert ALARM not in caplog.text


def test_files_that_somebody_else_removed_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = bench_with("t", "other")
    waiting = lose_in_sync(bench, monkeypatch)
    connection, peer = bench.connect()
    bench.turn(send(bench, connection, "t"), send(bench, connection, "other"))
    disk_of(bench).rename_now("t-0", "aside")
    waiting[0](None)
    assert codes(bench, peer, 2) == [56, 0]
    assert ALARM in caplog.text


def test_whether_a_directory_is_gone_is_not_asked_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_with("t")
    waiting = lose_in_sync(bench, monkeypatch)
    connection, _ = bench.connect()
    bench.turn(send(bench, connection, "t"))
    asked = asked_on_the_loop(bench, monkeypatch)
    waiting[0](None)
    bench.settle(1_000)
    assert asked == []


def test_whether_there_is_something_to_remove_is_not_asked_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = bench_with()
    hosting, disk = bench.broker.replicas, disk_of(bench)
    disk.make_directory("a-0.deleted")
    asked = asked_on_the_loop(bench, monkeypatch)
    for name in ("a-0.deleted", "b-0.deleted"):
        hosting.remove_later(hosting.directories[0], name, 100)
    bench.settle(1_000)
    assert asked == []
    assert (hosting.deletions.removed, hosting.deletions.waiting) == (1, 0)


def asked_on_the_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that the disk is asked for outside of work that waits for it."""
    disk = disk_of(bench)
    asked: list[str] = []
    off_the_loop = False
    exists, later = disk.exists, disk.later

    def watched(path: str) -> bool:
        if not off_the_loop:
            asked.append(path)
        return exists(path)

    def marked(work: Callable[[], None], done: Done) -> None:
        def run() -> None:
            nonlocal off_the_loop
            off_the_loop = True
            try:
                work()
            finally:
                off_the_loop = False

        later(run, done)

    monkeypatch.setattr(disk, "exists", watched)
    monkeypatch.setattr(disk, "later", marked)
    return asked
