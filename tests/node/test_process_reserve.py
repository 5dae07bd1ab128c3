"""Compaction on a small disk that only the node's process sees: the reserve stays free."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from node_clients import get
from node_process import NodeProcess, own_disk

from penstock.client.admin.blocking import Admin
from penstock.client.values import ConfigChange, NewTopic, Operation, Resource, ResourceType

DISK_BYTES = 40 * 1024 * 1024
RESERVE = DISK_BYTES // 20
RECORD_BYTES = 10_000
RECORDS = 1_300
BALLAST_BYTES = 16 * 1024 * 1024
WAIT_SECONDS_MAX = 40.0
SETTINGS = {
    "metrics.listener": "127.0.0.1:0",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "100",
}
SEGMENTS = {"segment.bytes": str(1024 * 1024), "min.cleanable.dirty.ratio": "0.01"}


def status(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(node.announcement["metrics"], "/status")[1])
    return found


def watch(happened: Callable[[], bool], disk: Path) -> int:
    """Until it has; the least that was free meanwhile."""
    least = shutil.disk_usage(disk).free
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not happened():
        assert time.monotonic() < until, "it did not happen in time"
        least = min(least, shutil.disk_usage(disk).free)
    return min(least, shutil.disk_usage(disk).free)


def fill(node: NodeProcess, topic: str, **configs: str) -> None:
    """Records of which compaction can drop none."""
    wanted = {**SEGMENTS, **{key.replace("_", "."): value for key, value in configs.items()}}
    with Admin(bootstrap=node.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, configs=wanted)])
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, bytes(RECORD_BYTES), key=b"%d" % number)
        producer.poll(0)
    assert producer.flush(30) == 0


def set_config(node: NodeProcess, topic: str, name: str, value: str) -> None:
    resource = Resource(ResourceType.TOPIC, topic)
    with Admin(bootstrap=node.bootstrap) as admin:
        change = ConfigChange(name, Operation.SET, value)
        assert admin.alter_configs({resource: [change]}) == {resource: None}


def runs(node: NodeProcess) -> float:
    page = get(node.announcement["metrics"], "/metrics")[1].decode()
    (line,) = [each for each in page.splitlines() if each.startswith("penstock_cleaner_runs_total")]
    return float(line.split()[-1])


def test_the_cleaner_leaves_the_reserve_of_a_disk_alone_and_cleans_when_there_is_room(
    tmp_path: Path,
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    before = own_disk(disk, f"size={DISK_BYTES}")
    settings = {**SETTINGS, "log.cleaner.min.compaction.lag.ms": "3600000"}
    with NodeProcess(disk / "data", settings, before=before) as node:
        inside = Path(f"/proc/{node.process.pid}/root{disk}")
        fill(node, "t", cleanup_policy="compact")
        ballast = inside / "ballast"
        ballast.write_bytes(bytes(BALLAST_BYTES))
        set_config(node, "t", "min.compaction.lag.ms", "0")

        def waits() -> bool:
            return any("too little room" in each["note"] for each in status(node)["duties"])

        assert watch(waits, inside) >= RESERVE
        assert runs(node) == 0
        assert node.stderr.count("waits for room") == 1
        ballast.unlink()
        assert watch(lambda: runs(node) > 0, inside) >= RESERVE
        assert node.terminate()[0] == 0
