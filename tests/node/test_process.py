"""A node process: how it starts, how it ends, and what is there when it starts again."""

import contextlib
import resource
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from node_clients import API_VERSIONS, ask, create_topic
from node_process import NodeProcess, produce_all, read_all

from depth import WHOLE
from penstock.wire.frame import request_frame
from penstock.wire.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic

CLEAN_MARKER = ".kafka_cleanshutdown"
IDLE_CONNECTIONS = 5_000
IDLE_BYTES_MAX = 200 * 1024 * 1024
KILLS = 3 if WHOLE else 2
FIRST_ANSWER_CPU_SECONDS_MAX = 0.9


def test_the_first_answer_comes_after_less_than_a_second_of_work(tmp_path: Path) -> None:
    """Counted in processor time, which other work on this machine hardly changes; that a start
    waits for nothing else is in tests/broker/test_startup.py."""
    with (
        NodeProcess(tmp_path / "data") as node,
        socket.create_connection(node.address) as connection,
    ):
        assert ask(connection, API_VERSIONS)
        assert node.cpu_seconds < FIRST_ANSWER_CPU_SECONDS_MAX


def test_sigterm_ends_a_node_in_time_though_somebody_waits_in_a_long_poll(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        create_topic(node, "t")
        wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=1_000)])
        fetch = FetchRequest(max_wait_ms=600_000, min_bytes=1, topics=[wanted])
        with socket.create_connection(node.address) as connection:
            connection.sendall(request_frame(1, 11, 1, "test", fetch))
            with socket.create_connection(node.address) as other:
                assert ask(other, API_VERSIONS)  # so the fetch, sent before, is parked by now
            code, seconds = node.terminate()
            assert connection.recv(65_536), "the one who waits is answered"
    assert code == 0
    assert seconds < 5.0
    assert (tmp_path / "data" / CLEAN_MARKER).exists()


def test_sigterm_ends_a_node_in_time_though_a_peer_does_not_read(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        create_topic(node, "t")
        assert produce_all(node.bootstrap, "t", [bytes(500_000)] * 10, apart=True) == [None] * 10
        wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition_max_bytes=1 << 30)])
        fetch = request_frame(1, 11, 1, "test", FetchRequest(max_bytes=1 << 30, topics=[wanted]))
        with contextlib.ExitStack() as held:
            for _ in range(5):
                deaf = held.enter_context(socket.socket())
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                deaf.connect(node.address)
                deaf.sendall(fetch)
            with socket.create_connection(node.address) as other:
                assert ask(other, API_VERSIONS)  # so the fetches, sent before, are answered by now
            code, seconds = node.terminate()
    assert code == 0
    assert seconds < 5.0
    assert (tmp_path / "data" / CLEAN_MARKER).exists()


def test_sigterm_under_load_loses_nothing_and_ends_in_time(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acknowledged: list[bytes] = []
    with NodeProcess(data) as node:
        create_topic(node, "t")
        stop, thread = _produce_until_stopped(node.bootstrap, acknowledged)
        _wait_for(lambda: len(acknowledged) > 500)
        code, seconds = node.terminate()
        stop.set()
        thread.join()
    assert code == 0
    assert seconds < 5.0
    with NodeProcess(data) as node:
        found = Counter(read_all(node.bootstrap, "t"))
    assert [value for value in acknowledged if found[value] != 1] == []


def test_a_restart_after_a_clean_stop_recovers_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with NodeProcess(data) as node:
        create_topic(node, "t")
        assert produce_all(node.bootstrap, "t", [b"x" * 1_000] * 1_000) == [None] * 1_000
        node.terminate()
    with NodeProcess(data) as node:
        assert "recovered" not in node.stderr
        assert len(read_all(node.bootstrap, "t")) == 1_000
        assert not (data / CLEAN_MARKER).exists(), "from here on a kill is a kill"


def test_a_cluster_keeps_its_id_over_a_restart(tmp_path: Path) -> None:
    ids = []
    for _ in range(2):
        with NodeProcess(tmp_path / "data") as node:
            ids.append(node.announcement["cluster_id"])
            node.kill()
    assert ids[0] == ids[1]


@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_what_was_acknowledged_is_there_once_after_each_kill(
    tmp_path: Path, durability: str
) -> None:
    data = tmp_path / "data"
    acknowledged: list[bytes] = []
    port = _free_port()
    settings = {"log.durability": durability, "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with NodeProcess(data, settings) as node:
        create_topic(node, "t", 3)
        stop, thread = _produce_until_stopped(node.bootstrap, acknowledged)
        _wait_for(lambda: len(acknowledged) > 300)
        node.kill()
    for kill in range(1, KILLS + 1):
        with NodeProcess(data, settings) as node:
            before = len(acknowledged)
            _wait_for(lambda before=before: len(acknowledged) > before + 300)
            if kill < KILLS:
                node.kill()
                continue
            stop.set()
            thread.join()
            found = Counter(read_all(node.bootstrap, "t", 3))
            assert [value for value in acknowledged if found[value] != 1] == []
            assert [value for value, times in found.items() if times > 1] == []


def test_thousands_of_idle_connections_cost_little_memory(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = IDLE_CONNECTIONS + 200
    if hard < needed:
        pytest.skip(f"this user may open {hard} files, {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: list[socket.socket] = []
    try:
        with NodeProcess(tmp_path / "data") as node:
            for _ in range(IDLE_CONNECTIONS):
                held.append(socket.create_connection(node.address))
            for connection in held:
                assert ask(connection, API_VERSIONS)
            assert node.resident_bytes < IDLE_BYTES_MAX
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_connection_over_the_limit_waits_until_another_is_closed(tmp_path: Path) -> None:
    with (
        NodeProcess(tmp_path / "data", {"max.connections": "1"}) as node,
        socket.create_connection(node.address) as first,
    ):
        assert ask(first, API_VERSIONS)
        with socket.create_connection(node.address) as second:
            assert ask(first, API_VERSIONS)
            first.close()
            assert ask(second, API_VERSIONS)


def _produce_until_stopped(
    bootstrap: str, acknowledged: list[bytes]
) -> tuple[threading.Event, threading.Thread]:
    """An idempotent producer on a thread of its own; every acknowledged value is noted."""
    stop = threading.Event()

    def heard(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append(message.value() or b"")

    def run() -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "log_level": 0,
            }
        )
        number = 0
        while not stop.is_set():
            value = b"%d" % number
            try:
                producer.produce("t", value, on_delivery=heard)
            except BufferError:
                producer.poll(0.05)
                continue
            number += 1
            producer.poll(0.001 if number % 10 == 0 else 0)
        producer.flush(1)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return stop, thread


def _wait_for(condition: object) -> None:
    assert callable(condition)
    until = time.monotonic() + 30
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < until, "it did not happen within 30 seconds"
        pause.wait(0.005)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
