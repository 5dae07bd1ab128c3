"""Names, checkpoints, epochs and the small files of a partition."""

import pytest

from penstock.log.checkpoints import (
    format_epochs,
    format_offsets,
    parse_epochs,
    parse_offsets,
    read_offsets,
)
from penstock.log.directory import (
    DirectoryKind,
    format_metadata,
    marked_name,
    parse_directory,
    parse_metadata,
    parse_segment_file,
    partition_directories,
    read_metadata,
    segment_file,
)
from penstock.log.epochs import UNKNOWN, LeaderEpochs
from penstock.log.files import Chores, FileCache
from penstock.model import TopicPartition
from penstock.testing.sim.disk import SimDisk
from penstock.world import DiskFailed


def test_checkpoints_are_written_as_kafka_does() -> None:
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b-c", 12): 0}
    assert format_offsets(offsets) == b"0\n2\na 0 5\nb-c 12 0\n"
    assert parse_offsets(format_offsets(offsets)) == (offsets, None)
    assert format_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert parse_epochs(b"0\n2\n0 0\n3 17\n") == ([(0, 0), (3, 17)], None)


def test_every_cut_of_a_checkpoint_counts_as_missing_and_is_complained_of() -> None:
    whole = format_offsets({TopicPartition("topic", 0): 512, TopicPartition("topic", 1): 77})
    for size in range(len(whole)):
        found = parse_offsets(whole[:size])
        assert found.offsets == {}, whole[:size]
        assert found.complaint
    for bad in (b"1\n0\n", b"\xff\xfe", b"0\nx\n", b"0\n1\na b c\n", b"0\n1\na 1\n", bytes(64)):
        assert parse_offsets(bad).complaint
        assert parse_epochs(bad).complaint


def test_a_missing_checkpoint_is_no_reason_to_complain() -> None:
    assert read_offsets(SimDisk(), "nothing") == ({}, None)


def test_directory_names() -> None:
    cases = {
        "events-0": (TopicPartition("events", 0), DirectoryKind.LIVE),
        "my-topic.v2-13": (TopicPartition("my-topic.v2", 13), DirectoryKind.LIVE),
        "events-3.0a1b-delete": (TopicPartition("events", 3), DirectoryKind.DELETED),
        "e.x-3.0a1b-future": (TopicPartition("e.x", 3), DirectoryKind.FUTURE),
        "events-3.0a1b-stray": (TopicPartition("events", 3), DirectoryKind.STRAY),
    }
    for name, (partition, kind) in cases.items():
        found = parse_directory(name)
        assert found is not None
        assert (found.partition, found.kind) == (partition, kind)
    for name in ("events", "-1", "events-", "events-x", "a-delete", "meta.properties", "a-٣"):
        assert parse_directory(name) is None


def test_a_marked_name_is_read_back_and_never_too_long() -> None:
    partition = TopicPartition("t" * 249, 3)
    name = marked_name(partition, DirectoryKind.DELETED, "0123456789abcdef" * 2)
    assert len(name) <= 255
    found = parse_directory(name)
    assert found is not None
    assert found.kind is DirectoryKind.DELETED


def test_segment_names_have_twenty_digits() -> None:
    assert segment_file("a-0", 42, ".log") == "a-0/00000000000000000042.log"
    assert parse_segment_file("00000000000000000042.log.deleted") == (42, ".log.deleted")
    assert parse_segment_file("leader-epoch-checkpoint") is None


def test_partition_metadata_is_kafkas() -> None:
    topic_id = bytes(range(16))
    data = format_metadata(topic_id)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert parse_metadata(data + b"\n") == topic_id
    for bad in (b"", data[:-3], b"version: 1" + data[10:], b"\xff", format_metadata(bytes(16))):
        assert parse_metadata(bad) is None


def test_directories_and_their_topic_ids_are_listed() -> None:
    disk = SimDisk()
    disk.put("b-0/partition.metadata", format_metadata(bytes(range(16))))
    disk.put("a-1/x", b"")
    disk.put("a-2", b"a file")
    assert [each.name for each in partition_directories(disk)] == ["a-1", "b-0"]
    assert read_metadata(disk, "b-0") == bytes(range(16))
    assert read_metadata(disk, "a-1") is None


def test_what_a_batch_tells_of_its_epoch_is_put_where_it_belongs() -> None:
    epochs = LeaderEpochs([(2, 100), (7, 300)])
    epochs.note(2, 40)  # it began earlier than was known
    epochs.note(2, 60)
    epochs.note(0, 10)
    epochs.note(4, 200)
    epochs.note(9, 350)
    assert epochs.entries() == [(0, 10), (2, 40), (4, 200), (7, 300), (9, 350)]
    assert epochs.latest == 9


def test_what_a_batch_tells_against_an_epoch_that_is_known_does_not_count() -> None:
    epochs = LeaderEpochs([(2, 100), (7, 300)])
    epochs.note(5, 320)  # in the time of epoch 7
    epochs.note(7, 90)  # before epoch 2
    epochs.note(-1, 0)
    assert epochs.entries() == [(2, 100), (7, 300)]


def test_an_epoch_ends_where_the_next_one_begins() -> None:
    epochs = LeaderEpochs([(2, 10), (4, 20), (7, 35)])
    assert epochs.end_of(7, 50) == (7, 50)
    assert epochs.end_of(4, 50) == (4, 35)
    assert epochs.end_of(5, 50) == (4, 35)
    assert epochs.end_of(1, 50) == (1, 10)
    assert epochs.end_of(8, 50) == UNKNOWN
    assert epochs.end_of(-1, 50) == UNKNOWN
    assert [epochs.at(offset) for offset in (9, 10, 34, 99)] == [-1, 2, 4, 7]


def test_epochs_and_offsets_only_rise() -> None:
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])
    assert not epochs.assign(3, 25)
    assert epochs.assign(4, 20)
    assert epochs.entries() == [(1, 0), (2, 10), (4, 20)]
    assert epochs.assign(5, 10)
    assert epochs.entries() == [(1, 0), (5, 10)]


def test_epochs_are_cut_at_both_ends() -> None:
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])
    assert epochs.cut_start(15)
    assert epochs.entries() == [(2, 15), (3, 20)]
    assert not epochs.cut_start(15)
    assert epochs.cut_end(20)
    assert epochs.entries() == [(2, 15)]
    assert epochs.latest == 2
    assert not epochs.cut_end(16)


def test_the_file_cache_is_bounded_and_keeps_what_is_used() -> None:
    disk = SimDisk()
    for number in range(5):
        disk.put(f"d/{number}", b"")
    cache = FileCache(disk, limit=3)
    first = cache.get("d/0")
    for number in range(1, 5):
        cache.get(f"d/{number}")
        assert cache.get("d/0") is first
    assert len(cache) == 3
    cache.drop_within("d")
    assert len(cache) == 0
    with pytest.raises(FileNotFoundError):
        cache.get("d/9")


def test_chores_run_in_order_and_stop_at_a_failure() -> None:
    disk = SimDisk()
    failures: list[DiskFailed] = []
    chores = Chores(disk, failures.append)
    seen: list[str] = []
    chores.replace("a", b"1")
    chores.then(lambda: seen.append("a" if disk.exists("a") else "-"))
    chores.remove("a")
    chores.remove("missing")
    chores.then(lambda: seen.append("a" if disk.exists("a") else "gone"))
    assert chores.busy
    disk.run_callbacks()
    assert seen == ["a", "gone"]
    assert not chores.busy
    disk.fail_write(0)
    chores.replace("x", b"")
    chores.replace("y", b"")
    disk.run_callbacks()
    assert len(failures) == 1
    assert chores.failure is failures[0]
    assert not disk.exists("y")


def test_chores_wait_while_the_disk_is_full() -> None:
    disk = SimDisk()
    chores = Chores(disk)
    disk.fail_write(0, full=True)
    chores.replace("a", b"1")
    chores.replace("b", b"2")
    disk.run_callbacks()
    assert (chores.stalled, chores.busy, chores.failure) == (True, False, None)
    chores.replace("c", b"3")
    assert disk.files() == {}
    chores.retry()
    disk.run_callbacks()
    assert list(disk.files()) == ["a", "b", "c"]
    assert not chores.busy
