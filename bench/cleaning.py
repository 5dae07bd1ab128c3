"""A server whose cleaner is at work: what its producers feel of it.

A compacted topic is filled while a lag keeps it from being cleaned; when the lag goes, the cleaner
begins by itself. Its `.cleaned` files, which both servers have, show while it works.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bench import topics
from bench.programs import LoadFailed
from bench.servers import Server

PARTITIONS = 4
KEYS = 200_000
VALUE_BYTES = 1_000
VALUES = 64
BATCH = 2_000
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(128 * 1024 * 1024),
    "min.compaction.lag.ms": str(3_600_000),
}
BEGIN_SECONDS_MAX = 60.0  # a cleaner that found nothing looks again after 15 s
LOOK_EVERY_SECONDS = 0.02
SEED = 7


def fill(server: Server, name: str, count: int) -> None:
    """Records of keys by chance, compressed by lz4."""
    topics.create(server.bootstrap, name, PARTITIONS, CONFIG)
    dice = random.Random(SEED)
    values = [dice.randbytes(VALUE_BYTES // 2).hex().encode() for _ in range(VALUES)]
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for start in range(0, count, BATCH):
        while len(producer) > 100_000:
            producer.poll(0.01)
        producer.produce_batch(
            name,
            [
                {"key": b"%016d" % dice.randrange(KEYS), "value": values[number % VALUES]}
                for number in range(start, start + BATCH)
            ],
        )
    if left := producer.flush(120):
        raise LoadFailed(f"{left} records could not be written")


def release(server: Server, name: str) -> None:
    """Let the cleaner have it, and wait until it has begun."""
    client = topics.admin(server.bootstrap)
    change = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (
                ("min.compaction.lag.ms", "0"),
                ("min.cleanable.dirty.ratio", "0.01"),
            )
        ],
    )
    for future in client.incremental_alter_configs([change]).values():
        future.result(30)
    deadline = time.monotonic() + BEGIN_SECONDS_MAX
    while not at_work(server.data, name):
        if time.monotonic() > deadline:
            raise LoadFailed("the cleaner did not begin")
        time.sleep(LOOK_EVERY_SECONDS)


def at_work(data: Path, name: str) -> bool:
    return any(data.glob(f"{name}-*/*.cleaned"))


class Share:
    """How much of the time a cleaner was seen at work."""

    def __init__(self) -> None:
        self.looks = self.seen = 0

    @property
    def value(self) -> float:
        return self.seen / max(1, self.looks)


@contextmanager
def watched(data: Path, name: str) -> Iterator[Share]:
    share, stopped = Share(), threading.Event()

    def look() -> None:
        while not stopped.wait(LOOK_EVERY_SECONDS):
            share.looks += 1
            share.seen += at_work(data, name)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield share
    finally:
        stopped.set()
        watcher.join()
