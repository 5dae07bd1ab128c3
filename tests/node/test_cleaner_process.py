"""The cleaner of a real node works in a process of its own, which may be killed at any time."""

import logging
import os
import queue
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.admin.blocking import Admin
from penstock.client.values import ConfigChange, NewTopic, Operation, Resource, ResourceType
from penstock.log.log import Log
from penstock.testing.cluster import Cluster
from penstock.wire.batch import Record, build_batch, check_produced

WAIT_SECONDS_MAX = 60.0
# Slow enough that a cleaning is caught in the middle.
SLOW = {
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.io.max.bytes.per.second": 20_000,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


class Said(logging.Handler):
    """What the cleaner and its processes log."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.put(record.getMessage())

    def wait_for(self, words: str) -> str:
        while words not in (line := self._lines.get(timeout=WAIT_SECONDS_MAX)):
            pass
        return line


@pytest.fixture
def said() -> Iterator[Said]:
    handler = Said()
    loggers = [logging.getLogger(name) for name in ("penstock.cleaning", "penstock.apart")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.DEBUG)
    yield handler
    for each, level in zip(loggers, levels, strict=True):
        each.removeHandler(handler)
        each.setLevel(level)


def dirty_topic(cluster: Cluster) -> Log:
    """Segments full of values of one key, appended on the node's own loop."""
    with Admin(bootstrap=cluster.bootstrap) as admin:
        configs = {"cleanup.policy": "compact", "internal.segment.bytes": "20000"}
        admin.create_topics([NewTopic("t", partitions=1, configs=configs)])
    broker = cluster.broker

    def write() -> None:
        now_ms = broker.world.clock.wall_ms()
        for number in range(200):
            batch = build_batch([Record(0, now_ms, b"key", b"%d" % number + b"x" * 1_000)])
            header = check_produced(memoryview(batch))
            broker.find("t", 0).append_own(batch, header, now_ms)

    cluster.call(write)
    return broker.find("t", 0).log


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def process_in(line: str) -> int:
    return int(line.split()[1])


def test_a_cleaning_whose_process_is_killed_is_done_by_another(said: Said) -> None:
    settings = {**SLOW, "log.cleaner.io.max.bytes.per.second": 200_000}
    with Cluster(settings, memory=False) as cluster:
        log = dirty_topic(cluster)
        size = log.size
        pid = process_in(said.wait_for("works beside this one"))
        os.kill(pid, signal.SIGKILL)
        said.wait_for("is tried again")
        assert process_in(said.wait_for("works beside this one")) != pid
        said.wait_for("cleaned t-0")
        assert log.size < size / 2


def test_a_stop_does_not_wait_for_a_cleaning_and_leaves_no_process(said: Said) -> None:
    with Cluster(SLOW, memory=False) as cluster:
        dirty_topic(cluster)
        pid = process_in(said.wait_for("works beside this one"))
        data = Path(cluster.data)
        cluster.stop()
        assert not is_alive(pid)
        cluster.start()
        names = [path.name for path in (data / "t-0").iterdir()]
        assert not [name for name in names if name.endswith(".swap")]
        log = cluster.broker.find("t", 0).log
        assert log.end_offset == 200


def test_a_faster_rate_holds_at_once(said: Said) -> None:
    with Cluster({**SLOW, "log.cleaner.io.max.bytes.per.second": 10}, memory=False) as cluster:
        log = dirty_topic(cluster)
        size = log.size
        said.wait_for("works beside this one")
        with Admin(bootstrap=cluster.bootstrap) as admin:
            set_rate(admin, 1e9)
        said.wait_for("cleaned t-0")
        assert log.size < size / 2


def set_rate(admin: Admin, rate: float) -> None:
    change = ConfigChange("log.cleaner.io.max.bytes.per.second", Operation.SET, str(rate))
    every_broker = Resource(ResourceType.BROKER, "")
    assert admin.alter_configs({every_broker: [change]}) == {every_broker: None}
