"""What users of `penstock.testing` may pass, and what they get."""

import asyncio
import socket
from pathlib import Path

import pytest

from penstock.client.admin import Admin
from penstock.config.single_node import SINGLE_NODE_SETTINGS
from penstock.log.log import Log
from penstock.node import Node
from penstock.testing import Cluster, NodeFailed
from penstock.world import DiskFull

CLEAN_MARKER = ".kafka_cleanshutdown"
SOCKET_SECONDS_MAX = 5.0


def test_settings_may_be_what_python_has_for_them() -> None:
    settings: dict[str, str | int | float | bool] = {
        "num.partitions": 3,
        "auto.create.topics.enable": False,
        "unclean.leader.election.enable": True,
        "log.cleaner.min.cleanable.ratio": 0.25,
        "broker.rack": "a",
    }
    with Cluster(settings) as cluster:
        config = cluster.broker.config
        assert {name: config.get(name) for name in settings} == settings


def test_a_topics_settings_too() -> None:
    with Cluster() as cluster:
        assert cluster.create_topic("a", config={"retention.ms": 5, "preallocate": True}) == "a"


def test_data_may_be_a_path(tmp_path: Path) -> None:
    with Cluster(data=tmp_path / "data") as cluster:
        assert cluster.data == str(tmp_path / "data")
    assert (tmp_path / "data").is_dir()


def test_a_cluster_has_the_settings_of_a_single_node_on_a_free_port() -> None:
    with Cluster() as cluster:
        static = {name: each.text for name, each in cluster.broker.config.static.items()}
    own = {"listeners", "log.dirs"}
    assert {name: static[name] for name in SINGLE_NODE_SETTINGS if name not in own} == {
        name: text for name, text in SINGLE_NODE_SETTINGS.items() if name not in own
    }
    assert static["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert static["log.segment.delete.delay.ms"] == "1000"


def topics(cluster: Cluster) -> list[str]:
    with Admin(cluster.bootstrap) as admin:
        return [topic.name for topic in admin.list_topics()]


def crash(cluster: Cluster) -> None:
    """Let something go wrong on the node's loop, and wait until that has ended it."""

    def fail() -> None:
        raise RuntimeError("a fault")

    assert cluster._world is not None
    assert cluster._thread is not None
    cluster._world.loop.call_from_thread(fail)
    cluster._thread.join(SOCKET_SECONDS_MAX)


def test_a_cluster_serves_within_an_async_with() -> None:
    async def use() -> list[str]:
        async with Cluster() as cluster:
            await asyncio.to_thread(cluster.create_topic, "a")
            return await asyncio.to_thread(topics, cluster)

    assert asyncio.run(use()) == ["a"]


def test_a_killed_cluster_tells_nobody_and_keeps_what_was_written(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("a")
        with socket.create_connection(cluster.address, SOCKET_SECONDS_MAX) as client:
            cluster.kill()
            assert client.recv(1) == b"", "its connections are gone"
        assert not (tmp_path / CLEAN_MARKER).exists()
        cluster.start()
        assert topics(cluster) == ["a"]


def test_a_stopped_cluster_can_be_started_again(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.create_topic("a")
        cluster.stop()
        assert (tmp_path / CLEAN_MARKER).exists()
        cluster.start()
        assert topics(cluster) == ["a"]


def test_a_node_that_cannot_start_says_why() -> None:
    with pytest.raises(Exception, match="must"), Cluster({"num.partitions": "many"}):
        pass


def test_a_crash_ends_the_with_block_with_its_cause() -> None:
    with pytest.raises(RuntimeError, match="a fault"), Cluster() as cluster:
        crash(cluster)


def test_a_crash_is_raised_by_stop_and_by_kill() -> None:
    for end in (Cluster.stop, Cluster.kill):
        cluster = Cluster().start()
        crash(cluster)
        with pytest.raises(RuntimeError, match="a fault"):
            end(cluster)


def test_a_crash_is_raised_by_what_is_asked_of_the_cluster_next() -> None:
    cluster = Cluster().start()
    crash(cluster)
    for ask in (lambda: cluster.bootstrap, lambda: cluster.broker, lambda: topics(cluster)):
        with pytest.raises(RuntimeError, match="a fault"):
            ask()


def test_clients_of_a_node_that_crashed_do_not_wait() -> None:
    cluster = Cluster().start()
    with socket.create_connection(cluster.address, SOCKET_SECONDS_MAX) as client:
        address = cluster.address
        crash(cluster)
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, SOCKET_SECONDS_MAX)


def test_a_cluster_can_be_started_again_after_a_crash(tmp_path: Path) -> None:
    cluster = Cluster(data=tmp_path).start()
    cluster.create_topic("a")
    crash(cluster)
    with pytest.raises(RuntimeError):
        cluster.stop()
    with cluster:
        assert topics(cluster) == ["a"]


def test_what_went_wrong_in_the_block_stays_in_sight_beside_a_crash() -> None:
    def use() -> None:
        with Cluster() as cluster:
            crash(cluster)
            raise ValueError("the test's own")

    with pytest.raises(RuntimeError, match="a fault") as raised:
        use()
    assert isinstance(raised.value.__context__, ValueError)


def test_a_crash_at_the_stop_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_node: Node, _broker: object) -> None:
        raise RuntimeError("a fault of the stop")

    monkeypatch.setattr(Node, "_close_logs", fail)
    with pytest.raises(RuntimeError, match="a fault of the stop"), Cluster():
        pass


def test_a_stop_that_was_not_clean_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(log: Log) -> None:
        raise DiskFull(f"no room for {log.directory}")

    cluster = Cluster().start()
    cluster.create_topic("a")
    monkeypatch.setattr(Log, "close", refuse)
    with pytest.raises(NodeFailed, match="no room for"):
        cluster.close()
