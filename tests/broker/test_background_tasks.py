"""What a broker does by itself, in virtual time: each duty is seen by what it leaves."""

from collections.abc import Mapping

import pytest
from simulated_node import PRODUCE, Bench, produce, replies

from own_thread import patch_own_thread
from penstock.log.log import Log

HOUR_MS = 3_600_000
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
RARE = {
    "log.flush.offset.checkpoint.interval.ms": str(HOUR_MS),
    "replica.high.watermark.checkpoint.interval.ms": str(HOUR_MS),
}


def with_a_record(settings: Mapping[str, str], *, sequence: int | None = None) -> Bench:
    bench = Bench({"log.durability": "fsync", **settings})
    bench.create_topic("t")
    bench.settle(3_000)  # what the new topic gave to write down is written
    client, heard = bench.connect()
    bench.receive(client, bench.frame(PRODUCE, produce("t", b"x", sequence=sequence)))
    bench.settle()
    (answer,) = replies(heard, [PRODUCE])
    assert answer.responses[0].partition_responses[0].error_code == 0
    client.closed()
    return bench


def lines(bench: Bench, name: str) -> list[str]:
    return bench.world.disks["data"].files().get(name, b"").decode().splitlines()


def test_records_go_when_their_time_is_over() -> None:
    settings = {"log.retention.ms": "60000", "log.retention.check.interval.ms": "1000"}
    bench = with_a_record(settings)
    bench.settle(50_000)
    assert bench.broker.find("t", 0).log.start_offset == 0
    bench.settle(20_000)
    assert bench.broker.find("t", 0).log.start_offset == 1


def test_high_watermarks_are_written_down() -> None:
    bench = with_a_record({**RARE, "replica.high.watermark.checkpoint.interval.ms": "1000"})
    bench.settle(2_000)
    assert "t 0 1" in lines(bench, HIGH_WATERMARKS)


def test_recovery_points_are_written_down_with_the_high_watermarks() -> None:
    bench = with_a_record({**RARE, "replica.high.watermark.checkpoint.interval.ms": "1000"})
    bench.settle(2_000)
    assert "t 0 1" in lines(bench, RECOVERY_POINTS)


def test_recovery_points_are_written_down_by_themselves_too() -> None:
    bench = with_a_record({**RARE, "log.flush.offset.checkpoint.interval.ms": "2000"})
    bench.settle(3_000)
    assert "t 0 1" in lines(bench, RECOVERY_POINTS)


def test_nothing_is_written_down_before_its_time() -> None:
    bench = with_a_record(RARE)
    bench.settle(10_000)
    assert "t 0 1" not in lines(bench, HIGH_WATERMARKS)
    assert "t 0 1" not in lines(bench, RECOVERY_POINTS)


def test_producers_that_were_not_heard_of_are_forgotten() -> None:
    settings = {
        "producer.id.expiration.ms": "60000",
        "producer.id.expiration.check.interval.ms": "90000",
    }
    bench = with_a_record(settings, sequence=0)
    producers = bench.broker.find("t", 0).log.producers
    bench.settle(80_000)
    assert list(producers.states) == [7], "nobody has looked yet"
    bench.settle(11_000)
    assert list(producers.states) == []


def test_the_first_look_at_retention_does_not_wait_for_its_interval() -> None:
    settings = {"log.retention.ms": "1000", "log.initial.task.delay.ms": "10000"}
    bench = with_a_record(settings)
    bench.settle(5_000)
    assert bench.broker.find("t", 0).log.start_offset == 0
    bench.settle(5_000)
    assert bench.broker.find("t", 0).log.start_offset == 1


def test_a_duty_that_fails_in_one_partition_is_logged_once_and_done_in_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"log.retention.ms": "60000", "log.retention.check.interval.ms": "1000"}
    bench = with_a_record({"producer.id.expiration.check.interval.ms": "1000", **settings})
    asked: list[Log] = []

    def expire(log: Log, _now_ms: int) -> None:
        asked.append(log)
        raise RuntimeError("ours")

    patch_own_thread(monkeypatch, Log, "remove_expired_producers", expire)
    bench.settle(70_000)
    assert len(asked) > 10
    assert len([each for each in caplog.records if "a duty failed" in each.getMessage()]) == 1
    assert bench.broker.find("t", 0).log.start_offset == 1
