"""Whole nodes whose cleaner is at work when they die. PENSTOCK_SIM_RUNS says how many seeds."""

import random

import pytest
from cleaned_node import CleanedNode
from simulated_node import PRODUCE, produce_batch

from depth import seeds
from penstock.testing.sim.world import WorldDisk, repeatable
from penstock.wire.batch import Record, build_batch

SEEDS = seeds(20, few=3)
KEYS = 6
RESERVE = 50_000_000


class CleanedLife:
    """One writer, one compacted topic, and what every key may hold."""

    def __init__(self, seed: int, durability: str) -> None:
        self.dice = random.Random(seed)
        self.power = durability == "fsync"
        self.settings = {
            "log.durability": durability,
            "log.cleaner.backoff.ms": str(self.dice.choice((20, 100, 400))),
            "log.cleaner.threads": str(self.dice.choice((1, 2))),
            "log.segment.delete.delay.ms": str(self.dice.choice((0, 200))),
            "log.retention.check.interval.ms": "300",
            "log.disk.reserve.bytes": str(RESERVE),
            "log.flush.offset.checkpoint.interval.ms": str(self.dice.choice((100, 60_000))),
        }
        self.node = self.start(None)
        self.node.topic(
            internal_segment_bytes=str(self.dice.choice((400, 1_000))),
            delete_retention_ms=str(self.dice.choice((0, 200, 100_000))),
        )
        self.acked: dict[str, str | None] = {}
        self.perhaps: dict[str, set[str | None]] = {}
        self.number = 0
        self.runs = 0

    def start(self, disks: dict[str, WorldDisk] | None) -> CleanedNode:
        return CleanedNode(self.settings, disks=disks, seed=self.dice.randrange(2**32))

    def value(self) -> str | None:
        self.number += 1
        return None if self.dice.random() < 0.2 else f"{self.number}-{'x' * 50}"

    def live(self) -> None:
        for _ in range(self.dice.randrange(10, 60)):
            key, value = f"key-{self.dice.randrange(KEYS)}", self.value()
            self.node.put("t", key, value)
            self.acked[key] = value
            self.perhaps.pop(key, None)
            if self.dice.random() < 0.2:
                self.node.settle(self.dice.uniform(1.0, 300.0))
            if self.dice.random() < 0.03:
                policy = self.dice.choice(("compact", "compact", "delete", "compact,delete"))
                self.node.alter("t", cleanup_policy=policy)
            if self.dice.random() < 0.03:
                self.fill_up()
        self.judge()

    def fill_up(self) -> None:
        """Somebody else takes the room of the disk, and gives it back."""
        disk = self.node.world.disks["data"]
        plenty = disk.free
        for _ in range(3):
            disk.free = self.dice.choice((RESERVE - 1, RESERVE + 300, RESERVE + 3_000))
            self.node.settle(self.dice.uniform(1.0, 1_500.0))
        disk.free = plenty
        self.node.simulation.run_until(lambda: disk_is_used(self.node))

    def die(self) -> None:
        """With a record on its way, at any moment."""
        key, value = f"key-{self.dice.randrange(KEYS)}", self.value()
        node = self.node
        client, _heard = node.connect()
        encoded = None if value is None else value.encode()
        batch = build_batch([Record(0, node.world.clock.wall_ms(), key.encode(), encoded)])
        node.receive(client, node.frame(PRODUCE, produce_batch("t", batch)))
        self.perhaps.setdefault(key, set()).add(value)
        for _ in range(self.dice.randrange(0, 120)):
            node.simulation.step()
        self.runs += node.cleaning.statistics.runs
        node.world.kill()
        disks = node.world.disks_after_kill()
        if self.power and self.dice.random() < 0.7:
            disks = node.world.disks_after_power_loss()
        self.node = self.start(disks)
        self.judge()

    def stop(self) -> None:
        self.runs += self.node.cleaning.statistics.runs
        self.node = self.start(self.node.stop())
        self.judge()

    def judge(self) -> None:
        found = self.node.read()
        for key in {**self.acked, **self.perhaps}:
            # A key whose tombstone is gone is a deleted one.
            allowed = {self.acked.get(key), *self.perhaps.get(key, ())}
            assert found.get(key) in allowed, f"{key}: {found.get(key)!r}, not of {allowed}"
        failed = [each.failed for each in self.node.broker.replicas.directories if each.failed]
        assert not failed
        assert self.node.cleaning.uncleanable == {}

    def run(self) -> None:
        for _ in range(self.dice.randrange(2, 5)):
            self.live()
            if self.dice.random() < 0.75:
                self.die()
            else:
                self.stop()
        self.node.alter("t", cleanup_policy="compact")
        self.node.settle(3_000)
        self.judge()
        self.runs += self.node.cleaning.statistics.runs
        leftover = [name for name in self.node.files() if name.endswith((".cleaned", ".swap"))]
        assert not leftover or self.node.cleaning.runs


def disk_is_used(node: CleanedNode) -> bool:
    """Looked at since there is room again: what is written before that is little."""
    directory = node.broker.replicas.directories[0]
    return not directory.rejects_writes and (directory.spare_bytes or 0) > RESERVE


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_the_last_value_of_each_key_survives_every_death_of_a_node_that_cleans(
    seed: int, durability: str
) -> None:
    life = CleanedLife(seed, durability)
    with repeatable(seed, __file__):
        life.run()
        assert life.runs > 0
