"""Segments that retention took leave the disk: after their new names, whatever the delay."""

from collections.abc import Mapping

import pytest
from simulated_node import PRODUCE, Bench, produce

SEGMENTS = 12
SETTINGS = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "300"}


def with_segments(configs: Mapping[str, str], *, seed: int = 7) -> Bench:
    """A topic with closed segments of one record each, and an active one with another."""
    bench = Bench(SETTINGS, seed=seed)
    bench.create_topic("t", configs=configs)
    connection, _ = bench.connect()
    for number in range(SEGMENTS + 1):
        if number:
            bench.broker.find("t", 0).log.roll(bench.world.clock.wall_ms())
        bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")))
        bench.settle(10)
    bench.settle(1_000)
    connection.closed()
    return bench


def names(bench: Bench) -> list[str]:
    return bench.world.disks["data"].list("t-0")


@pytest.mark.parametrize("seed", range(5))
def test_what_retention_took_goes_also_when_nothing_is_waited_for(seed: int) -> None:
    bench = with_segments({"file.delete.delay.ms": "0"}, seed=seed)
    bench.broker.find("t", 0).delete_before(SEGMENTS)
    bench.settle(2_000)
    assert [name for name in names(bench) if name.endswith(".log")] == [f"{SEGMENTS:020d}.log"]
    assert not [name for name in names(bench) if name.endswith(".deleted")]
    assert bench.broker.replicas.deletions.waiting == 0


def test_the_delay_counts_from_the_new_name() -> None:
    bench = with_segments({"file.delete.delay.ms": "60000"})
    bench.broker.find("t", 0).delete_before(SEGMENTS)
    bench.settle(59_000)
    logs = [name for name in names(bench) if name.endswith(".log.deleted")]
    assert len(logs) == SEGMENTS
    assert bench.broker.replicas.deletions.waiting == len(
        [name for name in names(bench) if name.endswith(".deleted")]
    )
    bench.settle(2_000)
    assert not [name for name in names(bench) if name.endswith(".deleted")]


@pytest.mark.parametrize("seed", range(10))
def test_when_the_active_segment_goes_too_nothing_of_it_is_left(seed: int) -> None:
    bench = with_segments({"file.delete.delay.ms": "0", "retention.ms": "5000"}, seed=seed)
    end_offset = bench.broker.find("t", 0).log.end_offset
    bench.settle(10_000)
    assert bench.broker.find("t", 0).log.start_offset == end_offset
    segments = [name for name in names(bench) if name[0] == "0"]
    assert segments == [f"{end_offset:020d}.log", f"{end_offset:020d}.snapshot"]
