"""How often a broker writes down where its logs begin, and how often it sums refusals up."""

import logging

import pytest
from simulated_node import PRODUCE, Bench, FakePeer, produce

from penstock.broker.background.throttled_log import LOG_WINDOW_MS, LOGGED_PER_REASON_MAX
from penstock.log.checkpoints import START_OFFSETS, read_offsets
from penstock.model import TopicPartition
from penstock.wire.frame import request_frame
from penstock.wire.messages import k20_delete_topics as k20

INTERVAL = "log.flush.start.offset.checkpoint.interval.ms"
DELETE_TOPICS = 20
PLACE = TopicPartition("t", 0)


def with_a_moved_start(settings: dict[str, str]) -> Bench:
    bench = Bench(settings)
    bench.create_topic("t")
    client, _ = bench.connect()
    for _ in range(3):
        bench.receive(client, bench.frame(PRODUCE, produce("t", b"x")))
    bench.settle()
    client.closed()
    bench.broker.find("t", 0).log.advance_start_offset(2)
    return bench


def start_on_disk(bench: Bench) -> int | None:
    return read_offsets(bench.world.disks["data"], START_OFFSETS).offsets.get(PLACE)


def test_log_starts_are_written_at_their_own_interval() -> None:
    bench = with_a_moved_start({INTERVAL: "20000"})
    bench.settle(19_000)
    assert start_on_disk(bench) is None
    bench.settle(1_500)
    assert start_on_disk(bench) == 2


def test_log_starts_may_be_written_more_often_than_recovery_points() -> None:
    bench = with_a_moved_start({INTERVAL: "300"})
    bench.settle(400)
    assert start_on_disk(bench) == 2


@pytest.mark.parametrize(
    "key",
    [
        INTERVAL,
        "log.flush.offset.checkpoint.interval.ms",
        "replica.high.watermark.checkpoint.interval.ms",
    ],
)
def test_an_interval_of_zero_is_never_and_not_all_the_time(key: str) -> None:
    bench = Bench({key: "0"})
    bench.settle(60_000)
    assert bench.stop()


def test_a_log_start_does_not_outlive_its_topic() -> None:
    bench = with_a_moved_start({INTERVAL: "1000"})
    bench.settle(1_500)
    assert start_on_disk(bench) == 2
    client, peer = bench.connect()
    request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
    bench.receive(client, request_frame(DELETE_TOPICS, 5, 1, "test", request))
    bench.simulation.run_until(lambda: bool(peer.sent))
    bench.settle(50)
    assert start_on_disk(bench) is None


def test_refusals_are_summed_up_when_their_window_ends(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench({"max.connections.per.ip": "1"})
    bench.settle(1)
    caplog.clear()
    bench.connect()
    for port in range(LOGGED_PER_REASON_MAX + 5):
        bench.connect(FakePeer(("10.0.0.1", 6000 + port)))
    told = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert told[0] == (
        "closed the connection from 10.0.0.1:6000: max.connections.per.ip=1 are open from there"
    )
    assert len(told) == LOGGED_PER_REASON_MAX
    caplog.clear()
    bench.settle(LOG_WINDOW_MS)
    [summary] = [each.getMessage() for each in caplog.records]
    assert summary.startswith("5 more connections were closed")
