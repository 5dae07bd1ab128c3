"""Data that was here and is missing at a start: offline and told, never replaced by nothing."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from node_clients import ends, produce_one
from node_process import START_SECONDS_MAX, produce_all, read_all

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import Connection
from penstock.errors import CorruptMessage
from penstock.node import StartRefused
from penstock.testing import Cluster
from penstock.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

PARTITIONS = 6
RECORDS = 10
STORAGE_ERROR = KafkaError.KAFKA_STORAGE_ERROR


class Place:
    """A node's directories: m, with the metadata, a and b."""

    def __init__(self, root: Path) -> None:
        self.metadata, self.first, self.second = root / "m", root / "a", root / "b"
        self.directories = [self.metadata, self.first, self.second]

    @contextmanager
    def running(self, **settings: Any) -> Iterator[Cluster]:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        roots = ",".join(str(each) for each in self.directories)
        with Cluster({"log.dirs": roots, **named}, data=self.metadata) as cluster:
            yield cluster

    def partitions(self, directory: Path) -> list[int]:
        return [each for each in range(PARTITIONS) if (directory / f"t-{each}").exists()]

    @property
    def holding(self) -> dict[Path, list[int]]:
        return {each: self.partitions(each) for each in self.directories}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """With a topic of six partitions, ten records in each, after a clean stop."""
    place = Place(tmp_path)
    with place.running() as cluster:
        cluster.create_topic("t", PARTITIONS)
        fill(cluster.bootstrap)
    assert all(len(each) == 2 for each in place.holding.values())
    return place


def fill(bootstrap: str) -> None:
    """Write the records of all partitions."""
    said: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(
            "t",
            b"%d" % (number // PARTITIONS),
            partition=number % PARTITIONS,
            on_delivery=lambda error, _message: said.append(error),
        )
    producer.flush(START_SECONDS_MAX)
    assert said == [None] * PARTITIONS * RECORDS


def break_file(monkeypatch: pytest.MonkeyPatch, broken: Path, code: int) -> None:
    """This file cannot be opened."""
    really = os.open

    def open_others(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        if path == str(broken):
            raise OSError(code, os.strerror(code))
        return really(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", open_others)


def expect_offline(cluster: Cluster, lost: list[int]) -> None:
    """These partitions answer KAFKA_STORAGE_ERROR, the others have all their records."""
    for each in range(PARTITIONS):
        if each in lost:
            assert produce_one(cluster.bootstrap, each) == STORAGE_ERROR
        else:
            assert ends(cluster.bootstrap, each) == (0, RECORDS)


def expect_whole(cluster: Cluster) -> None:
    assert len(read_all(cluster.bootstrap, "t", PARTITIONS)) == PARTITIONS * RECORDS


def test_partitions_of_a_directory_that_fails_at_the_start_are_not_made_elsewhere(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = place.holding
    lost = before[place.first]
    break_file(monkeypatch, place.first / f"t-{lost[0]}" / f"{0:020d}.log", errno.EIO)
    with place.running() as cluster:
        expect_offline(cluster, lost)
        assert place.holding == before
        assert f"log directory {place.first} failed" in caplog.text
        assert f"2 partitions stay offline (t-{lost[0]}, t-{lost[1]})" in caplog.text
    monkeypatch.undo()
    with place.running() as cluster:
        expect_whole(cluster)


def test_new_topics_are_made_while_a_directory_is_offline(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = place.holding[place.first]
    break_file(monkeypatch, place.first / f"t-{lost[0]}" / f"{0:020d}.log", errno.EIO)
    with place.running() as cluster:
        cluster.create_topic("new")
        assert produce_all(cluster.bootstrap, "new", [b"x"]) == [None]


def test_partitions_on_a_disk_that_is_not_mounted_stay_offline(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    lost = place.holding[place.second]
    aside = place.second.rename(place.second.with_name("unmounted"))
    for _ in range(2):  # the second start must remember it too
        place.second.mkdir(exist_ok=True)
        caplog.clear()
        with place.running() as cluster:
            expect_offline(cluster, lost)
            assert place.partitions(place.second) == []
            assert f"they were in {place.second}" in caplog.text
            assert "mount it" in caplog.text
    shutil.rmtree(place.second)
    aside.rename(place.second)
    with place.running() as cluster:
        expect_whole(cluster)


def test_partitions_of_a_directory_that_is_no_longer_named_stay_offline(place: Place) -> None:
    lost = place.holding[place.second]
    place.directories = place.directories[:2]
    with place.running() as cluster:
        expect_offline(cluster, lost)


def test_a_partition_directory_that_was_removed_is_told(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    lost = place.holding[place.first][0]
    shutil.rmtree(place.first / f"t-{lost}")
    for _ in range(2):
        caplog.clear()
        with place.running() as cluster:
            expect_offline(cluster, [lost])
            assert f"were in {place.first} and are gone" in caplog.text
            assert not (place.first / f"t-{lost}").exists()


def test_a_removed_partition_is_known_from_the_checkpoints_of_another_server(place: Place) -> None:
    """Apache Kafka leaves no file of placements."""
    (place.metadata / "penstock-placements").unlink()
    lost = place.holding[place.first][0]
    shutil.rmtree(place.first / f"t-{lost}")
    for _ in range(2):
        with place.running() as cluster:
            expect_offline(cluster, [lost])


@pytest.mark.parametrize("where", ["first", "second"])
def test_a_lost_partition_is_given_up_on_request_alone(place: Place, where: str) -> None:
    lost = place.holding[place.first][0]
    shutil.rmtree(place.first / f"t-{lost}")
    again: Path = getattr(place, where) / f"t-{lost}"
    again.mkdir()
    for _ in range(2):
        with place.running() as cluster:
            expect_offline(cluster, [lost])
    (again / "penstock-accept-loss").touch()
    with place.running() as cluster:
        assert ends(cluster.bootstrap, lost) == (0, 0)
        assert produce_one(cluster.bootstrap, lost) == 0


def test_a_topic_with_lost_partitions_can_be_deleted_and_made_again(place: Place) -> None:
    shutil.rmtree(place.second)
    with place.running() as cluster:
        with Admin(bootstrap=cluster.bootstrap) as admin:
            assert admin.delete_topics(["t"])["t"] is None
        cluster.create_topic("t", PARTITIONS)
        fill(cluster.bootstrap)
    with place.running() as cluster:
        expect_whole(cluster)


def test_a_start_without_descriptors_makes_no_log_over_another(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lost = place.holding[place.first][0]
    break_file(monkeypatch, place.first / f"t-{lost}" / f"{0:020d}.log", errno.EMFILE)
    with place.running() as cluster:
        expect_offline(cluster, [lost])
        assert "ulimit -n" in caplog.text
    monkeypatch.undo()
    with place.running() as cluster:
        expect_whole(cluster)


def test_of_two_directories_of_a_partition_the_one_that_was_used_counts(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"t-{place.holding[place.first][0]}"
    shutil.copytree(place.first / name, place.second / name)
    with place.running() as cluster:
        expect_whole(cluster)
    assert f"{place.second / name} is kept as" in caplog.text
    (kept,) = place.second.glob(f"{name}.*-stray")
    assert (kept / "partition.metadata").exists()


def test_a_partition_in_two_directories_stays_offline_if_it_is_not_known_which_was_used(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"t-{place.holding[place.first][0]}"
    shutil.copytree(place.first / name, place.second / name)
    (place.metadata / "penstock-placements").unlink()
    with place.running() as cluster:
        expect_offline(cluster, [int(name[2:])])
        assert f"{place.first / name} and {place.second / name}" in caplog.text
    shutil.rmtree(place.second / name)
    with place.running() as cluster:
        expect_whole(cluster)


@pytest.mark.parametrize("how", ["removed", "cut"])
def test_a_segment_that_is_not_whole_after_a_clean_stop_keeps_its_partition_offline(
    place: Place, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"log_segment_bytes": 1 << 20}
    with place.running(**settings) as cluster:
        cluster.create_topic("long")
        values = [b"%06d" % number + b"x" * 10_000 for number in range(300)]
        assert produce_all(cluster.bootstrap, "long", values) == [None] * len(values)
    segment = sorted(next(place.metadata.parent.glob("*/long-0")).glob("*.log"))[1]
    kept = segment.read_bytes()
    for end in ("stop", "kill", "stop"):  # however a node with it ends, the next one knows
        if how == "cut":
            os.truncate(segment, 1_000)
        else:
            segment.unlink(missing_ok=True)
        caplog.clear()
        with place.running(**settings) as cluster:
            assert produce_one(cluster.bootstrap, 0, "long") == STORAGE_ERROR
            assert f"long-0 stays offline: {segment}" in caplog.text
            expect_whole(cluster)
            if end == "kill":
                cluster.kill()
    segment.write_bytes(kept)
    with place.running(**settings) as cluster:
        assert read_all(cluster.bootstrap, "long") == values


def test_what_is_left_of_a_damaged_log_can_be_served_on_request(place: Place) -> None:
    settings = {"log_segment_bytes": 1 << 20}
    with place.running(**settings) as cluster:
        cluster.create_topic("long")
        values = [b"%06d" % number + b"x" * 10_000 for number in range(300)]
        assert produce_all(cluster.bootstrap, "long", values) == [None] * len(values)
    directory = next(place.metadata.parent.glob("*/long-0"))
    segments = sorted(directory.glob("*.log"))
    segments[1].unlink()
    (directory / "penstock-accept-loss").touch()
    for _ in range(2):
        with place.running(**settings) as cluster:
            assert ends(cluster.bootstrap, 0, "long") == (0, 300)
            assert produce_one(cluster.bootstrap, 0, "t") == 0
    assert not (directory / "penstock-accept-loss").exists()


def test_log_directories_in_another_order_are_refused(place: Place) -> None:
    before = place.holding
    place.directories = [place.second, place.metadata, place.first]
    with pytest.raises(StartRefused, match="put into another order"), place.running():
        pass
    assert place.holding == before
    place.directories = [place.metadata, place.second, place.first]
    with place.running() as cluster:
        expect_whole(cluster)


def test_missing_metadata_is_refused(place: Place) -> None:
    before = place.holding
    (place.metadata / "__cluster_metadata-0").rename(place.metadata / "kept")
    with pytest.raises(StartRefused, match="holds no metadata log"), place.running():
        pass
    assert place.holding == before
    (place.metadata / "kept").rename(place.metadata / "__cluster_metadata-0")
    with place.running() as cluster:
        expect_whole(cluster)


def test_a_byte_that_changed_is_told_to_those_who_read_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a recovery, and remembered over the clean stops that follow."""
    with place.running() as cluster:
        cluster.create_topic("flipped")
        said = produce_all(cluster.bootstrap, "flipped", [b"a", b"b", b"c"], apart=True)
        assert said == [None] * 3
    segment = next(place.metadata.parent.glob("*/flipped-0")) / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    (segment.parent.parent / ".kafka_cleanshutdown").unlink()
    for _ in range(2):
        caplog.clear()
        with place.running() as cluster:
            assert "readers of it get CORRUPT_MESSAGE" in caplog.text
            assert [read_at(cluster, offset) for offset in range(3)] == [0, CorruptMessage.code, 0]
            assert ends(cluster.bootstrap, 0, "flipped") == (0, 3)


def read_at(cluster: Cluster, offset: int) -> int:
    """The error code of a fetch of `flipped`."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=[FetchTopic(topic="flipped", partitions=[partition])],
    )
    with Connection(*cluster.address) as connection:
        response = connection.request(request, FetchResponse, 12)
    return response.responses[0].partitions[0].error_code
