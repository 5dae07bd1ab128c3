"""A topic that our cleaner has compacted: Kafka's dump tool reads it, and Apache Kafka opens it.

Keys are written again and again in several segments, some are deleted; transactions of which every
third is aborted go through it. What Kafka's own consumer reads from the directory afterwards must
be what it read from Penstock, record by record, and hold the last value of each key.
"""

import base64
import random
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench import topics
from bench.servers import Ports
from compat.data import DELIVERY_SECONDS_MAX, READ_SECONDS_MAX, SEGMENT_BYTES, quiet
from compat.report import Report

TOPIC = "compacted-by-us"
OFTEN = {"log.cleaner.backoff.ms": "200", "log.segment.delete.delay.ms": "0"}
NEVER = {"log.cleaner.backoff.ms": "3600000"}
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.01",
    "file.delete.delay.ms": "0",
}
KEYS, ROUNDS, VALUE_BYTES = 300, 30, 750
CLEANED_SECONDS_MAX = 120.0
LAST = b"last"


class Found(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


def fill_by_key(bootstrap: str) -> dict[bytes | None, bytes | None]:
    """What each key holds in the end."""
    chance = random.Random(TOPIC)
    topics.create(bootstrap, TOPIC, 1, CONFIG)
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": TOPIC,
        "compression.codec": "lz4",
        "batch.num.messages": 25,
    }
    producer = Producer(quiet(settings))
    producer.init_transactions(DELIVERY_SECONDS_MAX)
    latest: dict[bytes | None, bytes | None] = {}
    for number in range(ROUNDS):
        written: dict[bytes | None, bytes | None] = {}
        producer.begin_transaction()
        for place in range(KEYS):
            key = b"key-%d" % place
            value = base64.b64encode(chance.randbytes(VALUE_BYTES))
            written[key] = None if chance.random() < 0.1 else value
            producer.produce(TOPIC, written[key], key)
            producer.poll(0)
        if number % 3 == 1:
            producer.abort_transaction(DELIVERY_SECONDS_MAX)
        else:
            producer.commit_transaction(DELIVERY_SECONDS_MAX)
            latest.update(written)
    producer.begin_transaction()
    producer.produce(TOPIC, LAST, LAST)
    producer.commit_transaction(DELIVERY_SECONDS_MAX)
    return {**latest, LAST: LAST}


def read_committed(bootstrap: str) -> list[Found]:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "compat",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "check.crcs": True,
    }
    consumer = Consumer(quiet(settings))
    found: list[Found] = []
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while time.monotonic() < deadline and not (found and found[-1].key == LAST):
            for message in consumer.consume(500, 0.5):
                if message.error():
                    raise RuntimeError(str(message.error()))
                found.append(Found(message.offset() or 0, message.key(), message.value()))
    finally:
        consumer.close()
    return found


def wait_until_cleaned(data: Path) -> bool:
    """Until the checkpoint has reached the last segment."""
    deadline = time.monotonic() + CLEANED_SECONDS_MAX
    checkpoint = data / "cleaner-offset-checkpoint"
    while time.monotonic() < deadline:
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        cleaned = [int(line.split()[2]) for line in lines[2:] if line.startswith(f"{TOPIC} 0 ")]
        names = sorted(path.name for path in (data / f"{TOPIC}-0").glob("*.log"))
        if cleaned and names and cleaned[0] >= int(names[-1].removesuffix(".log")):
            return True
        time.sleep(0.2)
    return False


def expect_latest(
    report: Report, found: list[Found], latest: dict[bytes | None, bytes | None]
) -> None:
    held = {each.key: each.value for each in found}
    wrong = [key for key, value in latest.items() if held.get(key) != value]
    report.expect(not wrong, "compacted: the last value of each key", str(wrong[:5]))
    few = len(found) < KEYS * ROUNDS / 3
    report.expect(few, "compacted: older ones are gone", f"{len(found)} records")


def check_compacted(report: Report, place: Path, *, clean: bool) -> Path:
    """The directory changes hands, and ends as ours; where it is."""
    from compat.directories import node, ourselves

    how = "after a clean stop" if clean else "after SIGKILL"
    data, ports = place / f"compacted-{clean}", Ports.free()
    with node(ourselves(), data, ports, clean=clean, changes=OFTEN) as server:
        latest = fill_by_key(server.bootstrap)
        report.expect(wait_until_cleaned(data), "compacted: the cleaner has been there")
        ours = read_committed(server.bootstrap)
        expect_latest(report, ours, latest)
    with node("kafka", data, ports, changes=NEVER) as server:
        theirs = read_committed(server.bootstrap)
        fact = f"Kafka opens what Penstock has compacted, {how}: the same records"
        report.expect(theirs == ours, fact, f"{len(theirs)}, not {len(ours)}")
    with node(ourselves(), data, ports, changes=NEVER) as server:
        again = read_committed(server.bootstrap)
        fact = f"Penstock has them back, {how}"
        report.expect(again == ours, fact, f"{len(again)}, not {len(ours)}")
    return data
