"""A node with few file descriptors: connections leave it some, and partitions share them."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from node_process import NodeProcess, produce_all, read_all

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic

FILES_MAX = 300
# Limits are inherited: a shell lowers its own and becomes the node.
FEW_FILES = ("sh", "-c", f'ulimit -n {FILES_MAX}; exec "$@"', "sh")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data", before=FEW_FILES) as node:
        yield node


def address(node: NodeProcess) -> tuple[str, int]:
    host, _, port = node.bootstrap.rpartition(":")
    return host, int(port)


def test_connections_do_not_take_the_descriptors_of_files(node: NodeProcess) -> None:
    with contextlib.ExitStack() as held:
        crowd = [
            held.enter_context(socket.create_connection(address(node), timeout=30))
            for _ in range(2 * FILES_MAX)
        ]
        # A client that came in before the crowd would still be served; so is the disk.
        files = Path(f"/proc/{node.process.pid}/fd")
        assert len(os.listdir(files)) < FILES_MAX - 50
        for each in crowd:
            leave(each)
    with Admin(bootstrap=node.bootstrap) as admin:
        assert not isinstance(admin.create_topics([NewTopic("t", partitions=1)])["t"], Exception)
    assert produce_all(node.bootstrap, "t", [b"a"]) == [None]


def test_a_partition_that_nobody_writes_to_holds_no_file_open(node: NodeProcess) -> None:
    files = Path(f"/proc/{node.process.pid}/fd")
    before = len(os.listdir(files))
    with Admin(bootstrap=node.bootstrap) as admin:
        admin.create_topics([NewTopic("some", partitions=50)])
    assert len(os.listdir(files)) - before < 20
    assert read_all(node.bootstrap, "some") == []


def test_more_partitions_than_files_take_records_and_keep_them(tmp_path: Path) -> None:
    partitions = 2 * FILES_MAX
    with NodeProcess(tmp_path / "data", before=FEW_FILES) as node:
        with Admin(bootstrap=node.bootstrap) as admin:
            admin.create_topics([NewTopic("many", partitions=partitions)])
        files = Path(f"/proc/{node.process.pid}/fd")
        for turn in range(2):
            assert write_everywhere(node.bootstrap, "many", partitions, b"%d" % turn) == 0
            assert len(os.listdir(files)) < FILES_MAX - 50
        node.terminate()
    with NodeProcess(tmp_path / "data", before=FEW_FILES) as node:
        values = read_all(node.bootstrap, "many", partitions)
        assert sorted(values) == [b"0"] * partitions + [b"1"] * partitions


def leave(connection: socket.socket) -> None:
    """Say goodbye, and wait until the node has seen it; it may have closed before."""
    with contextlib.suppress(ConnectionError, OSError):
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def write_everywhere(bootstrap: str, topic: str, partitions: int, value: bytes) -> int:
    """One record to each partition; how many were not acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        producer.produce(topic, value, partition=partition)
    return int(producer.flush(60))
