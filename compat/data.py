"""What a server is filled with, and whether all of it is still there."""

import base64
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from bench import topics
from compat.report import Report

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20  # the smallest that Kafka 4 allows
VALUE_BYTES = 1000
BATCH_MESSAGES_MAX = 40  # many batches in a segment: its indexes need entries
DELIVERY_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 60.0
PROMISED = "-promised"  # how the topics of promises.py end


@dataclass(slots=True)
class Content:
    """Topics with their settings, and every value per partition in its order."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    values: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)


def quiet(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, "log_level": 0}


def make_topic(
    bootstrap: str, content: Content, name: str, partitions: int, config: dict[str, str]
) -> None:
    topics.create(bootstrap, name, partitions, config)
    content.partitions[name] = partitions
    content.configs[name] = config


def produce(
    bootstrap: str, content: Content, name: str, count: int, *, codec: str, chance: random.Random
) -> None:
    """Random text that hardly compresses, from an idempotent producer, spread by turns."""
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.codec": codec,
        "enable.idempotence": True,
        "linger.ms": 20,
        "batch.num.messages": BATCH_MESSAGES_MAX,
    }
    producer = Producer(quiet(settings))
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    for number in range(count):
        value = base64.b64encode(chance.randbytes(VALUE_BYTES * 3 // 4))
        partition = number % content.partitions[name]
        producer.produce(name, value, f"key-{number}".encode(), partition, on_delivery=delivered)
        content.values.setdefault((name, partition), []).append(value)
        producer.poll(0)
    left = producer.flush(DELIVERY_SECONDS_MAX)
    if left or failures:
        raise RuntimeError(f"{left} messages not delivered to {name}: {failures[:3]}")


def fill(bootstrap: str, content: Content, prefix: str, count: int = 5000) -> None:
    """A topic per codec, in several segments; one compacted, one with settings of its own."""
    chance = random.Random(prefix)
    for codec in CODECS:
        name = f"{prefix}-{codec}"
        make_topic(bootstrap, content, name, 2, {"segment.bytes": str(SEGMENT_BYTES)})
        produce(bootstrap, content, name, count, codec=codec, chance=chance)
    name = f"{prefix}-compacted"
    config = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}
    make_topic(bootstrap, content, name, 1, config)
    produce(bootstrap, content, name, 100, codec="none", chance=chance)
    name = f"{prefix}-configured"
    config = {"retention.ms": "172800000", "max.message.bytes": "2000000"}
    make_topic(bootstrap, content, name, 7, config)
    produce(bootstrap, content, name, 70, codec="lz4", chance=chance)
    make_topic(bootstrap, content, f"{prefix}-empty", 3, {})


def read_all(
    bootstrap: str, counts: dict[tuple[str, int], int]
) -> dict[tuple[str, int], list[bytes]]:
    """The first values of each partition, as many as are counted; fewer if they do not come."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "compat",
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = Consumer(quiet(settings))
    found: dict[tuple[str, int], list[bytes]] = {place: [] for place in counts}
    left = sum(counts.values())
    try:
        consumer.assign([TopicPartition(name, number, 0) for name, number in counts])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while left > 0 and time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                if message.error():
                    raise RuntimeError(str(message.error()))
                found[message.topic() or "", message.partition() or 0].append(
                    message.value() or b""
                )
                left -= 1
    finally:
        consumer.close()
    return found


def topic_configs(bootstrap: str, name: str) -> dict[str, str]:
    client: AdminClient = topics.admin(bootstrap)
    asked = ConfigResource(ConfigResource.Type.TOPIC, name)
    (future,) = client.describe_configs([asked]).values()
    return {entry.name: entry.value for entry in future.result(30).values()}


def expect_content(report: Report, bootstrap: str, content: Content, where: str) -> None:
    """All topics, settings and records are there, and nothing besides."""
    found = topics.admin(bootstrap).list_topics(timeout=30).topics
    shape = {
        name: len(topic.partitions)
        for name, topic in found.items()
        if not name.startswith("__") and not name.endswith(PROMISED)
    }
    report.expect(
        shape == content.partitions, f"{where}: all topics", f"{shape} != {content.partitions}"
    )
    wrong: dict[tuple[str, str], str | None] = {}
    for name, wanted in content.configs.items():
        seen = topic_configs(bootstrap, name)
        wrong |= {(name, k): seen.get(k) for k, v in wanted.items() if seen.get(k) != v}
    report.expect(not wrong, f"{where}: all settings", str(wrong))
    found_values = read_all(bootstrap, {place: len(v) for place, v in content.values.items()})
    missing = []
    for (name, partition), values in content.values.items():
        end = topics.end_offsets(bootstrap, name, range(partition, partition + 1))[0]
        if end != len(values):
            missing.append(f"{name}-{partition} ends at {end}, not {len(values)}")
        elif found_values[name, partition] != values:
            missing.append(f"{name}-{partition} has other values")
    total = sum(map(len, content.values.values()))
    report.expect(not missing, f"{where}: all {total} records", "\n".join(missing))
