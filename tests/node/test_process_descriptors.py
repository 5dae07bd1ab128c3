"""A node that runs short of file descriptors refuses what is new and keeps what it has."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_process import NodeProcess, produce_all, read_all

from penstock.client.admin import Admin
from penstock.client.values import NewTopic
from penstock.errors import PolicyViolation

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
        for _ in range(2 * FILES_MAX):
            held.enter_context(contextlib.closing(socket.create_connection(address(node))))
        # A client that came in before the crowd would still be served; so is the disk.
        files = Path(f"/proc/{node.process.pid}/fd")
        assert len(os.listdir(files)) < FILES_MAX - 50
    with Admin(node.bootstrap) as admin:
        assert not isinstance(admin.create_topics([NewTopic("t", partitions=1)])["t"], Exception)
    assert produce_all(node.bootstrap, "t", [b"a"]) == [None]


def test_more_partitions_than_files_are_refused_before_they_are_promised(
    node: NodeProcess,
) -> None:
    with Admin(node.bootstrap) as admin:
        result = admin.create_topics([NewTopic("many", partitions=2 * FILES_MAX)])["many"]
        assert isinstance(result, PolicyViolation)
        assert "ulimit -n" in str(result)
        assert [topic.name for topic in admin.list_topics()] == []


def test_a_partition_holds_one_file_open(node: NodeProcess) -> None:
    files = Path(f"/proc/{node.process.pid}/fd")
    before = len(os.listdir(files))
    with Admin(node.bootstrap) as admin:
        admin.create_topics([NewTopic("some", partitions=50)])
    assert len(os.listdir(files)) - before < 60
    assert read_all(node.bootstrap, "some") == []
