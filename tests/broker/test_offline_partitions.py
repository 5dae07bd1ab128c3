"""Partitions that cannot be served: metrics, Metadata and DescribeLogDirs tell the same of them."""

from typing import Any

import pytest
from http_asking import SimScraper
from metrics_asking import Page
from simulated_node import METADATA, PRODUCE, Bench, metadata, produce, replies

from penstock.errors import KafkaStorageError, LeaderNotAvailable
from penstock.wire.apis import response_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import k35_describe_log_dirs as k35
from penstock.wire.messages import k75_describe_topic_partitions as k75
from penstock.world import DiskFailed, FileLost

SETTINGS = {"metrics.listener": "node:9404", "log.dirs": "one,two"}
STORAGE_ERROR = KafkaStorageError.code
OFFLINE_PARTITIONS = "kafka_controller_kafkacontroller_offlinepartitionscount"
OFFLINE_REPLICAS = "kafka_server_replicamanager_offlinereplicacount"
PARTITIONS = "kafka_server_replicamanager_partitioncount"
LEADERS = "kafka_server_replicamanager_leadercount"
TROUBLE = (OFFLINE_PARTITIONS, OFFLINE_REPLICAS)


@pytest.fixture
def bench() -> Bench:
    bench = Bench(SETTINGS)
    bench.create_topic("orders", 4)
    return bench


def page(bench: Bench) -> Page:
    return Page(SimScraper(bench).get("/metrics")[1].decode())


def told(bench: Bench) -> dict[int, int]:
    """What Metadata says of each partition."""
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(METADATA, metadata("orders")))
    bench.settle()
    (answer,) = replies(peer, [METADATA])
    partitions = answer.topics[0].partitions
    for each in partitions:
        assert bool(each.error_code == STORAGE_ERROR) == bool(each.offline_replicas)
    return {each.partition_index: each.error_code for each in partitions}


def ask(bench: Bench, key: int, version: int, message: object) -> Any:
    connection, peer = bench.connect()
    bench.receive(connection, request_frame(key, version, 1, "test", message))
    bench.settle()
    frame = bytes(peer.sent[4:])
    _, position = parse_response_header(key, version, frame)
    return read(response_class(key), version, frame, position)


def test_partitions_of_a_directory_that_failed_have_no_leader_that_serves(bench: Bench) -> None:
    told(bench)  # which is remembered
    second = bench.broker.replicas.directories[1]
    offline = {each.index for each in second.partitions}
    second.take_offline(DiskFailed("by design"))
    seen = page(bench)
    assert [seen(name) for name in TROUBLE] == [2, 2]
    assert (seen(PARTITIONS), seen(LEADERS)) == (4, 2)
    assert told(bench) == {index: STORAGE_ERROR if index in offline else 0 for index in range(4)}


def test_a_partition_that_was_refused_has_none_either(bench: Bench) -> None:
    connection, _ = bench.connect()
    for index in range(4):
        bench.receive(connection, bench.frame(PRODUCE, produce("orders", b"kept", index)))
    bench.settle(10_000)
    disks = bench.stop()
    (lost,) = [name for name in disks["two"].list() if name.startswith("orders-")][:1]
    disks["two"].remove_now(lost)
    again = Bench(SETTINGS, disks=disks)
    seen = page(again)
    assert [seen(name) for name in TROUBLE] == [1, 1]
    assert (seen(PARTITIONS), seen(LEADERS)) == (4, 3)
    index = int(lost.rpartition("-")[2])
    assert told(again) == {each: STORAGE_ERROR if each == index else 0 for each in range(4)}


def test_a_partition_whose_files_were_taken_away_has_none_either(bench: Bench) -> None:
    told(bench)
    partition = bench.broker.find("orders", 2)
    lost = FileLost("orders-2 is gone")
    partition.log.give_up(lost)
    partition.directory.fail(lost)
    seen = page(bench)
    assert [seen(name) for name in TROUBLE] == [1, 1]
    assert seen(LEADERS) == 3
    assert told(bench) == {0: 0, 1: 0, 2: STORAGE_ERROR, 3: 0}


def test_a_partition_that_is_not_made_yet_has_none_yet(bench: Bench) -> None:
    hosting = bench.broker.replicas
    partition = hosting.by_id[bench.broker.image.topics["orders"].topic_id].pop(3)
    bench.broker.clear_caches()
    assert told(bench)[3] == LeaderNotAvailable.code
    assert page(bench)(OFFLINE_PARTITIONS) == 1
    hosting.by_id[partition.topic_id][3] = partition


def test_where_nothing_is_wrong_nothing_is_offline(bench: Bench) -> None:
    seen = page(bench)
    assert [seen(name) for name in TROUBLE] == [0, 0]
    assert (seen(PARTITIONS), seen(LEADERS)) == (4, 4)
    assert told(bench) == dict.fromkeys(range(4), 0)


def test_the_other_descriptions_agree(bench: Bench) -> None:
    bench.broker.replicas.directories[1].take_offline(DiskFailed("by design"))
    wanted = k75.DescribeTopicPartitionsRequest(topics=[k75.TopicRequest(name="orders")])
    (topic,) = ask(bench, 75, 0, wanted).topics
    assert {each.partition_index: each.error_code for each in topic.partitions} == told(bench)
    one, two = ask(bench, 35, 4, k35.DescribeLogDirsRequest(topics=None)).results
    assert (one.error_code, two.error_code) == (0, STORAGE_ERROR)
    assert sum(len(each.partitions) for each in one.topics) == 2
