"""What users of `penstock.testing` may pass, and what they get."""

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import CannotReach, Connection
from penstock.config.single_node import SINGLE_NODE_SETTINGS
from penstock.log.log import Log
from penstock.model import INTERNAL_TOPICS
from penstock.node.shutdown import NodeShutdown
from penstock.testing import Cluster, NodeFailed, NotPossible
from penstock.testing.embedded import EmbeddedNode
from penstock.wire.frame import request_frame
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest
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
    assert static["listeners"].startswith("PLAINTEXT://127.0.0.1:")
    assert static["log.segment.delete.delay.ms"] == "1000"


def topics(cluster: Cluster) -> list[str]:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return [topic.name for topic in admin.list_topics()]


def crash(cluster: Cluster) -> None:
    """Let something go wrong on the node's loop, and wait until that has ended it."""

    def fail() -> None:
        raise RuntimeError("a fault")

    (node,) = cluster._nodes.values()
    assert isinstance(node, EmbeddedNode)
    thread = node._thread
    assert thread is not None
    node._running_world().loop.call_from_thread(fail)
    thread.join(SOCKET_SECONDS_MAX)


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
            client.sendall(request_frame(18, 0, 1, "test", ApiVersionsRequest()))
            size = int.from_bytes(client.recv(4, socket.MSG_WAITALL))
            client.recv(size, socket.MSG_WAITALL)  # the node has accepted the connection
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


def test_the_option_for_several_nodes_is_named() -> None:
    with pytest.raises(TypeError, match="the option is brokers="):
        Cluster(nodes=3)  # type: ignore[arg-type]


def test_a_node_that_cannot_start_says_why() -> None:
    with pytest.raises(Exception, match="Not a number"), Cluster({"num.partitions": "many"}):
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
    def fail(_shutdown: NodeShutdown) -> None:
        raise RuntimeError("a fault of the stop")

    monkeypatch.setattr(NodeShutdown, "_close_logs", fail)
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


# -- nodes by their numbers


def test_the_only_node_has_the_number_one_and_need_not_be_named(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        assert cluster.nodes == (1,)
        cluster.create_topic("a")
        cluster.kill(1)
        cluster.restart(1)
        cluster.stop(1)
        cluster.restart()
        assert topics(cluster) == ["a"]


def test_a_node_has_the_number_that_its_settings_give_it() -> None:
    with Cluster({"node.id": 7}) as cluster:
        assert cluster.nodes == (7,)
        cluster.restart(7)


def test_a_node_that_is_not_there_is_named_in_the_error() -> None:
    with Cluster() as cluster, pytest.raises(ValueError, match="no node 2; there is 1"):
        cluster.kill(2)


def test_a_directory_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="say one of them"):
        Cluster(data="somewhere", memory=True)


# -- restarts


def test_a_restart_keeps_data_and_port() -> None:
    with Cluster() as cluster:
        before = cluster.bootstrap
        cluster.create_topic("a")
        for end in (Cluster.kill, Cluster.stop):
            end(cluster)
            cluster.restart()
            assert cluster.bootstrap == before
        # A group's client of an earlier test may know the port.
        assert [each for each in topics(cluster) if each not in INTERNAL_TOPICS] == ["a"]


def test_nobody_else_gets_the_port_of_a_node_that_is_down() -> None:
    with Cluster() as cluster:
        address = cluster.address
        cluster.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, SOCKET_SECONDS_MAX)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        cluster.restart()
        socket.create_connection(address, SOCKET_SECONDS_MAX).close()


def test_each_listener_keeps_its_port() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
    protocols = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
    settings = {"listeners": listeners, "listener.security.protocol.map": protocols}
    with Cluster(settings) as cluster:
        before = cluster.addresses
        assert set(before) == {"PLAINTEXT", "OTHER"}
        cluster.restart()
        assert cluster.addresses == before


# -- pauses


def test_a_paused_node_takes_connections_and_answers_nobody_until_it_is_resumed() -> None:
    with Cluster() as cluster:
        cluster.pause()
        cluster.pause()
        with pytest.raises(CannotReach, match="did not answer"):
            Connection(*cluster.address, timeout_ms=200)
        with socket.create_connection(cluster.address, SOCKET_SECONDS_MAX) as waiting:
            waiting.sendall(b"GET / HTTP/1.1\r\n\r\n")  # refused as soon as it is looked at
            waiting.settimeout(0.05)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            cluster.resume()
            waiting.settimeout(SOCKET_SECONDS_MAX)
            assert waiting.recv(1) == b""
        assert topics(cluster) == []


def test_a_paused_node_can_be_killed_and_stopped(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        cluster.pause()
        cluster.kill()
        assert not (tmp_path / CLEAN_MARKER).exists()
        cluster.restart()
        cluster.pause()
        cluster.stop()
        assert (tmp_path / CLEAN_MARKER).exists()


def test_a_paused_cluster_can_be_closed() -> None:
    with Cluster() as cluster:
        cluster.pause()


def test_what_needs_the_loop_says_that_it_is_paused() -> None:
    with Cluster() as cluster:
        cluster.pause()
        with pytest.raises(NotPossible, match="resume it first"):
            cluster.advance(minutes=5)
        cluster.resume()
        cluster.advance(minutes=5)


# -- time


def test_time_passes_for_the_node_alone() -> None:
    with Cluster() as cluster:
        clock = cluster.broker.world.clock
        before_ms = cluster.call(clock.wall_ms)
        cluster.advance(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)
        passed_ms = cluster.call(clock.wall_ms) - before_ms
    assert passed_ms - (((24 + 2) * 60 + 3) * 60 + 4) * 1000 - 5 in range(10_000)


def test_a_restart_does_not_put_the_clock_back() -> None:
    with Cluster() as cluster:
        before_ms = cluster.call(cluster.broker.world.clock.wall_ms)
        cluster.advance(hours=1)
        cluster.restart()
        assert cluster.call(cluster.broker.world.clock.wall_ms) >= before_ms + 3_600_000


def test_time_does_not_run_backwards() -> None:
    with Cluster() as cluster, pytest.raises(ValueError, match="backwards"):
        cluster.advance(minutes=-1)


# -- the loop


def test_a_call_runs_on_the_loop_and_gives_back_its_result() -> None:
    with Cluster() as cluster:
        name = cluster.call(lambda: threading.current_thread().name)
    assert name == "penstock-node"


def test_what_a_call_raises_comes_back_and_the_node_goes_on() -> None:
    with Cluster() as cluster:
        with pytest.raises(ZeroDivisionError):
            cluster.call(lambda: 1 // 0)
        assert topics(cluster) == []
