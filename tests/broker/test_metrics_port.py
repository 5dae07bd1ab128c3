"""The port for metrics: health, status, and a page that costs clients nothing."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest
from http_asking import SimScraper
from metrics_asking import SETTINGS, Page, get, get_json, scrape
from simulated_node import Bench

from penstock.broker.metrics import snapshot
from penstock.broker.metrics.port import PAGES_AT_ONCE_MAX
from penstock.broker.metrics.status import readiness
from penstock.broker.metrics.table import TABLE
from penstock.config.broker import BrokerConfig
from penstock.node import PenstockNode, StartRefused
from penstock.testing import Cluster
from penstock.testing.sim.world import SimWorld
from penstock.world import DiskFailed
from tools.metrics_reference import reference

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
SIMULATED = {"metrics.listener": "node:9404"}


def test_the_reference_page_of_metrics_is_up_to_date() -> None:
    assert REFERENCE.read_text() == reference(), "run: make reference"


def test_every_metric_of_a_page_is_in_the_table() -> None:
    with Cluster(SETTINGS) as cluster:
        cluster.create_topic("orders")
        page = scrape(cluster)
    known = {row.name.removesuffix("_total"): row.kind.value for row in TABLE}
    assert {name: kind for name, kind in page.kinds.items() if known.get(name) != kind} == {}


def test_an_embedded_node_opens_no_port_unless_it_is_asked_to() -> None:
    with Cluster() as cluster, pytest.raises(AssertionError):
        _ = cluster.metrics_url


def test_idle_connections_do_not_starve_a_health_check() -> None:
    with Cluster(SETTINGS) as cluster, ExitStack() as idle:
        url = urlsplit(cluster.metrics_url)
        for _ in range(60):
            idle.enter_context(socket.create_connection((url.hostname, url.port)))
        for path in ("/health/live", "/health/ready"):
            assert get_json(cluster, path)[0] == 200
        assert get(cluster.metrics_url, "/metrics")[0] == 503


def test_health_and_status_are_told_as_json() -> None:
    with Cluster(SETTINGS) as cluster:
        assert get_json(cluster, "/health/live") == (200, {"live": True})
        code, ready = get_json(cluster, "/health/ready")
        assert (code, ready["ready"], ready["reasons"]) == (200, True, [])
        code, status = get_json(cluster, "/status")
        assert code == 200
        assert status["directories"][0]["state"] == "works"
        assert status["duties"] == []
        assert status["node_id"] == cluster.broker.node_id


def test_the_index_names_the_other_pages() -> None:
    with Cluster(SETTINGS) as cluster:
        status, headers, body = get(cluster.metrics_url, "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    for path in (b"/metrics", b"/health/live", b"/health/ready", b"/status"):
        assert path in body


def test_a_simulated_node_serves_its_metrics() -> None:
    bench = Bench(SIMULATED)
    bench.create_topic("orders", 3)
    status, body = SimScraper(bench).get("/metrics")
    page = Page(body.decode())
    assert status == 200
    assert page("kafka_server_replicamanager_partitioncount") == 3
    assert not page.has("process_cpu_seconds_total")  # there is no process


def test_those_who_ask_at_the_same_time_get_the_same_page() -> None:
    bench = Bench(SIMULATED)
    scraper = SimScraper(bench)
    askers = [scraper.ask("/metrics") for _ in range(10)]
    bench.simulation.run_until(lambda: all(each.answer is not None for each in askers))
    assert {each.answer[0] for each in askers if each.answer} == {200}


def test_a_node_that_stops_says_so_before_it_is_gone() -> None:
    bench = Bench(SIMULATED)
    broker = bench.broker
    assert not any(check.reason for check in readiness(broker))
    bench.node.stop()
    assert [check.reason for check in readiness(broker) if check.reason] == ["the node is stopping"]
    bench.simulation.run_until(lambda: bench.stopped)


def test_a_node_without_a_working_directory_is_not_ready() -> None:
    bench = Bench(SIMULATED)
    bench.broker.replicas.directories[0].take_offline(DiskFailed("by design"))
    status, body = SimScraper(bench).get("/health/ready")
    assert status == 503
    assert b"none of 1 log directories works" in body


def test_a_failed_directory_is_seen_in_metrics_and_status() -> None:
    bench = Bench({**SIMULATED, "log.dirs": "one,two"})
    bench.create_topic("orders", 4)
    bench.broker.replicas.directories[1].take_offline(DiskFailed("by design"))
    scraper = SimScraper(bench)
    page = Page(scraper.get("/metrics")[1].decode())
    assert page("kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert page("kafka_log_logmanager_logdirectoryoffline", logdirectory="two") == 1
    assert page("kafka_log_logmanager_logdirectoryoffline", logdirectory="one") == 0
    assert page("kafka_server_replicamanager_offlinereplicacount") == 2
    assert page("kafka_server_replicamanager_leadercount") == 2
    assert scraper.get("/health/ready")[0] == 200
    assert b'"reason": "by design"' in scraper.get("/status")[1]


def test_a_node_that_starts_is_alive_and_not_ready() -> None:
    assert [check.reason for check in readiness(None)] == ["the node is starting"]
    bench = Bench(SIMULATED)
    bench.broker.ready = False
    scraper = SimScraper(bench)
    assert scraper.get("/health/live")[0] == 200
    status, body = scraper.get("/health/ready")
    assert status == 503
    assert b"recovered" in body


def test_an_address_that_was_chosen_and_is_taken_refuses_the_start() -> None:
    bench = Bench(SIMULATED)
    other = PenstockNode(
        SimWorld(bench.simulation, "other"),
        BrokerConfig.of({"listeners": "PLAINTEXT://other:9092", "log.dirs": "data", **SIMULATED}),
    )
    with pytest.raises(StartRefused, match=r"node:9404 for metrics.*Set metrics.listener"):
        other.start(lambda: None, lambda: None)


def test_the_default_address_being_taken_is_only_a_word(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    settings = {"listeners": "PLAINTEXT://other:9092", "log.dirs": "data"}
    node = PenstockNode(SimWorld(bench.simulation, "other"), BrokerConfig.of(settings))
    ready: list[bool] = []
    node.start(lambda: ready.append(True), lambda: None)
    bench.simulation.run_until(lambda: bool(ready))
    assert node.metrics_address is None
    assert "127.0.0.1:9404 for metrics" in caplog.text


def test_different_pages_at_once_are_bounded() -> None:
    bench = Bench(SIMULATED)
    bench.create_topic("orders", 5)
    statuses: list[int] = []
    port: Any = bench.node.resources.metrics_port
    port._waiting.update({number: [] for number in range(PAGES_AT_ONCE_MAX)})
    statuses.append(SimScraper(bench).get("/metrics")[0])
    port._waiting.clear()
    statuses.append(SimScraper(bench).get("/metrics")[0])
    assert statuses == [503, 200]


def test_a_page_that_cannot_be_made_ends_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_seen: object) -> Iterator[None]:
        for _ in range(3):
            yield
        raise LookupError("by design")

    bench = Bench(SIMULATED)
    scraper = SimScraper(bench)
    clock: Any = bench.world.clock
    clock._read_cost_ms = 5.0  # a slice per step
    monkeypatch.setattr(snapshot.MetricsSnapshot, "steps", broken)
    assert scraper.get("/metrics")[0] == 500
    assert "by design" in caplog.text
    monkeypatch.undo()
    assert scraper.get("/metrics")[0] == 200


def test_scrapes_from_many_threads_all_succeed() -> None:
    with Cluster(SETTINGS) as cluster:
        cluster.create_topic("orders", partitions=50)
        found: list[int] = []

        def ask() -> None:
            for _ in range(5):
                found.append(get(cluster.metrics_url, "/metrics?partitions=*")[0])

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [200] * 40


def test_a_page_is_made_in_slices_and_others_are_answered_meanwhile() -> None:
    bench = Bench(SIMULATED)
    bench.create_topic("orders", 300)
    scraper = SimScraper(bench)
    scraper.get("/metrics")  # what is loaded once is loaded
    clock: Any = bench.world.clock
    clock._read_cost_ms = 1.0  # a slow machine: every look at the clock costs a millisecond
    page, live = scraper.ask("/metrics?partitions=*"), scraper.ask("/health/live")
    bench.simulation.run_until(lambda: live.answer is not None)
    assert page.answer is None
    bench.simulation.run_until(lambda: page.answer is not None)
    assert page.answer is not None
    assert page.answer[1].count(b"kafka_log_log_size{") == 300


def test_a_page_is_bounded_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "TOPICS_MAX", 2)
    monkeypatch.setattr(snapshot, "PARTITIONS_MAX", 3)
    bench = Bench(SIMULATED)
    for number in range(4):
        bench.create_topic(f"topic-{number}", 2)
    page = Page(SimScraper(bench).get("/metrics?partitions=*")[1].decode())
    size = "kafka_log_log_size"
    told = [labels for name, labels in page.values if name == size]
    assert told == [
        (("partition", "0"), ("topic", "topic-0")),
        (("partition", "1"), ("topic", "topic-0")),
        (("topic", "topic-1"),),
    ]
    assert page("penstock_metrics_left_out", what="topics") == 2
    assert page("penstock_metrics_left_out", what="partitions") == 2
    assert page("kafka_server_replicamanager_partitioncount") == 8


def test_ten_thousand_partitions_fit_on_a_small_page() -> None:
    cluster = Cluster(SETTINGS).start()
    try:
        for number in range(10):
            cluster.create_topic(f"topic-{number}", partitions=1_000)
        page = scrape(cluster)
        assert page("kafka_server_replicamanager_partitioncount") == 10_000
        assert page("kafka_log_log_numlogsegments", topic="topic-7") == 1_000
        assert len(page.text) < 64 * 1024
    finally:
        cluster.kill()  # closing ten thousand logs is another story


def test_garbage_on_many_connections_leaves_the_port_working() -> None:
    with Cluster(SETTINGS) as cluster:
        host, port = urlsplit(cluster.metrics_url).netloc.split(":")
        chance = Random(7)
        for number in range(60):
            with socket.create_connection((host, int(port)), timeout=10) as peer:
                data = chance.randbytes(chance.choice((1, 100, 20_000)))
                with suppress(OSError):
                    peer.sendall(data + (b"\r\n\r\n" if number % 2 else b""))
                    if number % 3 == 0:
                        peer.shutdown(socket.SHUT_WR)
                        while peer.recv(4096):
                            pass
        assert get_json(cluster, "/health/live")[0] == 200
