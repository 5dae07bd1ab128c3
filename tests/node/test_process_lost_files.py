"""Files that somebody removes or cuts under a running node: their partition is told, no other."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from node_clients import create_topic, ends, produce_one
from node_process import START_SECONDS_MAX, NodeProcess, produce_all, read_all

from penstock.client.transport.connection import Connection
from penstock.errors import CorruptMessage, KafkaStorageError
from penstock.wire.messages import k01_fetch as k01

VALUE_BYTES = 10_000
SETTINGS = {"log.segment.bytes": str(1 << 20)}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    """With a topic `t` of three segments and a topic `other`."""
    with NodeProcess(tmp_path / "data", SETTINGS) as node:
        create_topic(node, "t")
        create_topic(node, "other")
        fill(node)
        assert len(segments(node)) >= 3
        yield node


def fill(node: NodeProcess, megabytes: int = 3) -> None:
    values = [b"%06d" % number + b"x" * VALUE_BYTES for number in range(megabytes * 100)]
    assert produce_all(node.bootstrap, "t", values) == [None] * len(values)


def segments(node: NodeProcess) -> list[Path]:
    return sorted((node.data / "t-0").glob("*.log"))


def fetch(node: NodeProcess, offset: int, size: int = 4 << 20) -> tuple[int, bytes]:
    """The error code and the records of one fetch."""
    request = k01.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=size,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            k01.FetchTopic(
                topic="t",
                partitions=[
                    k01.FetchPartition(
                        partition=0,
                        current_leader_epoch=-1,
                        fetch_offset=offset,
                        partition_max_bytes=size,
                    )
                ],
            )
        ],
    )
    with Connection(*node.address) as connection:
        response = connection.request(request, k01.FetchResponse, 12)
    answer = response.responses[0].partitions[0]
    return answer.error_code, bytes(answer.records or b"")


def test_a_removed_segment_is_told_to_its_readers(node: NodeProcess) -> None:
    node.terminate()
    with NodeProcess(node.data, SETTINGS) as again:
        segments(again)[1].unlink()
        offset = int(segments(again)[0].stem) + 1
        assert fetch(again, offset)[0] == 0
        gone = int(segments(again)[1].stem) - 1
        until = time.monotonic() + START_SECONDS_MAX
        while "t-0 is offline and takes no more records" not in again.stderr:
            assert time.monotonic() < until, "readers are told, and the log is not"
            assert fetch(again, gone)[0] == KafkaStorageError.code
        assert fetch(again, gone)[0] == KafkaStorageError.code
        assert again.stderr.count("t-0 is offline and takes no more records") == 1
        assert produce_one(again.bootstrap, 0) == KafkaError.KAFKA_STORAGE_ERROR
        assert "Traceback" not in again.stderr
        assert produce_all(again.bootstrap, "other", [b"on"]) == [None]
        assert again.terminate()[0] == 0


def test_a_removed_partition_directory_ends_its_partition_only(node: NodeProcess) -> None:
    (node.data / "t-0").rename(node.data.with_name("aside"))
    values = [b"x" * VALUE_BYTES for _ in range(400)]
    said = produce_all_refused(node, values)
    assert said == KafkaError.KAFKA_STORAGE_ERROR
    assert produce_one(node.bootstrap, 0) == KafkaError.KAFKA_STORAGE_ERROR
    assert produce_all(node.bootstrap, "other", [b"on"]) == [None]
    assert read_all(node.bootstrap, "other") == [b"on"]
    assert "Traceback" not in node.stderr
    assert node.process.poll() is None
    assert "restore the file from a copy" in node.stderr


def produce_all_refused(node: NodeProcess, values: list[bytes]) -> int:
    """The first error that one of them gets."""
    said: list[int] = []
    producer = Producer({"bootstrap.servers": node.bootstrap, "retries": 0, "batch.size": 20_000})
    for value in values:
        producer.produce(
            "t", value, on_delivery=lambda error, _: said.append(error.code() if error else 0)
        )
        producer.poll(0)
    producer.flush(20)
    return next(each for each in said if each)


def test_a_segment_that_is_cut_under_the_node_does_not_make_readers_wait_for_ever(
    node: NodeProcess,
) -> None:
    first = segments(node)[0]
    assert fetch(node, 0)[0] == 0
    os.truncate(first, 1_000)
    codes = {fetch(node, 0)[0] for _ in range(3)}
    assert codes <= {KafkaStorageError.code, CorruptMessage.code}
    assert "Traceback" not in node.stderr
    assert ends(node.bootstrap, 0, "other") == (0, 0)


def test_a_log_directory_that_is_removed_goes_offline(tmp_path: Path) -> None:
    """The others keep the node alive."""
    data, second = tmp_path / "data", tmp_path / "second"
    settings = {
        "log.dirs": f"{data},{second}",
        "replica.high.watermark.checkpoint.interval.ms": "100",
    }
    with NodeProcess(data, settings) as node:
        create_topic(node, "t", 2)
        victim, kept = (0, 1) if (second / "t-0").exists() else (1, 0)
        assert produce_one(node.bootstrap, victim) == 0
        shutil.rmtree(second)
        assert produce_one(node.bootstrap, victim) in (0, KafkaError.KAFKA_STORAGE_ERROR)
        while f"log directory {second} failed" not in node.stderr:
            assert node.process.poll() is None
            assert produce_one(node.bootstrap, kept) == 0
        assert produce_one(node.bootstrap, victim) == KafkaError.KAFKA_STORAGE_ERROR
        assert produce_one(node.bootstrap, kept) == 0
        assert "Traceback" not in node.stderr
