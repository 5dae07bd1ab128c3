"""The order pipeline on a Spark cluster, and against Apache Kafka while its driver is killed.

Every order must be in the copy once, and every window in the results once, with its totals; no
transaction may stay open.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from bench.servers import ROOT, running, scratch, stand_in
from compat.order_driver import COPY, copy_topic, place_of
from compat.raw_client import TWO_PHASE
from compat.report import Report
from compat.spark_cluster import WORKERS, spark_cluster
from examples.declarative.__main__ import run as run_declared
from examples.orders.feed import PARTITIONS, Writer, create_topics
from examples.orders.pipeline import Place
from examples.orders.shop import (
    Cell,
    Customer,
    Order,
    Total,
    closing_order,
    customers,
    differences,
    expected,
    orders,
    to_json,
)
from penstock.client.admin import Admin
from penstock.client.coordinator_values import TransactionFilter
from penstock.client.values import At, FoundOffset, NewTopic
from penstock.model import TopicPartition

SEED = 5
ORDERS = 8_000
ORDERS_PER_MINUTE = 800
ORDERS_AT_ONCE = 100
KILLS = 4
LIFE_SECONDS_MAX = 900
LOOK_SECONDS = 0.02
READ_SECONDS_MAX = 30.0

Results = list[tuple[Cell, Total]]


class Shop:
    """What was written to a cluster, and so what must come out."""

    def __init__(self, place: Place) -> None:
        self.customers: list[Customer] = customers(SEED)
        arrived = list(itertools.islice(orders(SEED, ORDERS_PER_MINUTE), ORDERS))
        self.orders: list[Order] = [*arrived, closing_order(arrived)]
        create_topics(place)
        with Admin(place.bootstrap) as admin:
            admin.create_topics([NewTopic(copy_topic(place), PARTITIONS, 1)])
        writer = Writer(place)
        writer.write_customers(self.customers)
        for first in range(0, len(self.orders), ORDERS_AT_ONCE):
            writer.write_orders(self.orders[first : first + ORDERS_AT_ONCE])

    def judge(self, report: Report, how: str, place: Place, found: Mapping[str, Any]) -> None:
        wanted = expected(self.orders, self.customers)
        for name, has in (("topic", "the topic has"), ("files", "the files have")):
            said = differences(wanted, _results(found[name]))
            report.expect(
                not said,
                f"{how}: {has} each of {len(wanted)} results once",
                "\n".join(said),
            )
        rows = Counter(_committed_values(place.bootstrap, copy_topic(place)))
        missing = Counter(map(to_json, self.orders)) - rows
        report.expect(
            rows == Counter(map(to_json, self.orders)),
            f"{how}: librdkafka reads each of {len(self.orders)} copied rows once",
            f"{rows.total()} rows, {len(rows)} different, {missing.total()} missing",
        )
        left = _left_open(place)
        report.expect(not left, f"{how}: nothing is open, nobody is held back", left)


def _results(found: list[list[list[Any]]]) -> Results:
    return [(Cell(*cell), Total(*total)) for cell, total in found]


def _places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, each) for each in range(PARTITIONS)]


def _committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """Up to the end, as a client that is not ours reads it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-used",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([Assigned(topic, each, 0) for each in range(PARTITIONS)])
    values: list[bytes] = []
    ended: set[int | None] = set()
    until = time.monotonic() + READ_SECONDS_MAX
    while len(ended) < PARTITIONS and time.monotonic() < until:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is not None:
                ended.add(message.partition())
            else:
                values.append(message.value() or b"")
    consumer.close()
    return values


def _left_open(place: Place) -> str:
    with Admin(place.bootstrap) as admin:
        ongoing = admin.transactions.list_all(TransactionFilter(states=("Ongoing",)))
        held = [
            f"{each.topic}-{each.partition}"
            for topic in (place.revenue, copy_topic(place))
            for each in _places(topic)
            if _end(admin, each, committed_only=True) != _end(admin, each, committed_only=False)
        ]
    return ", ".join([*(each.transactional_id for each in ongoing), *held])


def _end(admin: Admin, place: TopicPartition, *, committed_only: bool) -> int:
    found = admin.offsets({place: At.END}, committed_only=committed_only)[place]
    assert isinstance(found, FoundOffset), found
    return found.offset


class Driver:
    """A life of the pipeline."""

    def __init__(self, place: Place, master: str | None = None) -> None:
        self._log = place.folder / "driver.log"
        self._commits = Path(place.checkpoint(COPY)) / "commits"
        command = [sys.executable, "-m", "compat.order_driver", place.bootstrap, str(place.folder)]
        with self._log.open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, *(["--master", master] if master else [])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                start_new_session=True,
            )

    def finish(self) -> dict[str, Any]:
        try:
            printed, _ = self.process.communicate(timeout=LIFE_SECONDS_MAX)
            if self.process.returncode:
                raise RuntimeError(f"the pipeline failed:\n{self._log_tail()}")
            told: dict[str, Any] = json.loads(printed.splitlines()[-1])
            return told
        finally:
            self._kill_group()

    def kill_after_a_batch(self, chance: Random) -> bool:
        """Whether it was still alive: at some moment after it has committed another batch."""
        before, until = self._batches(), time.monotonic() + LIFE_SECONDS_MAX
        try:
            while self._batches() == before:
                if self.process.poll() is not None or time.monotonic() > until:
                    return False
                time.sleep(LOOK_SECONDS)
            time.sleep(chance.random() * 1.5)
            alive = self.process.poll() is None
            if chance.random() < 0.5:
                self.process.kill()  # Python alone: Java finds out, and ends by itself
                self._wait_for_group()
            return alive
        finally:
            self._kill_group()

    def _batches(self) -> int:
        if not self._commits.exists():
            return 0
        return sum(each.name.isdecimal() for each in self._commits.iterdir())

    def _wait_for_group(self) -> None:
        self.process.wait()
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(LOOK_SECONDS)

    def _kill_group(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _log_tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-40:])


def _check_cluster(report: Report, folder: Path) -> None:
    kind = stand_in("penstock", "PENSTOCK_COMPAT_SELF")
    folder.mkdir()
    with (
        running(kind, folder / "node", clean=False) as server,
        spark_cluster(folder) as master,
    ):
        place = place_of(server.bootstrap, folder)
        shop = Shop(place)
        found = Driver(place, master).finish()
        report.expect(
            found["executors"] == WORKERS,
            f"a standalone cluster runs it on {WORKERS} workers",
            str(found["executors"]),
        )
        shop.judge(report, "on a standalone cluster", place, found)


def _check_killed(report: Report, folder: Path, how: str, changes: Mapping[str, str]) -> None:
    folder.mkdir()
    with running("kafka", folder / "node", changes=changes, clean=False) as server:
        place = place_of(server.bootstrap, folder)
        shop = Shop(place)
        chance = Random(f"{how} {SEED}")
        killed = sum(Driver(place).kill_after_a_batch(chance) for _ in range(KILLS))
        report.expect(
            killed == KILLS, f"{how}: the driver is killed {KILLS} times at work", f"{killed} times"
        )
        shop.judge(report, how, place, Driver(place).finish())


def _check_declared(report: Report, folder: Path) -> None:
    kind = stand_in("penstock", "PENSTOCK_COMPAT_SELF")
    folder.mkdir()
    with running(kind, folder / "node", clean=False) as server:
        place = place_of(server.bootstrap, folder)
        shop = Shop(place)
        log = folder / "spark-pipelines.log"
        with log.open("wb") as said:
            code = run_declared(server.bootstrap, folder / "storage", said)
        report.expect(code == 0, "spark-pipelines ends with 0", log.read_text()[-2000:])
        wanted = Counter[str]()
        for cell, total in expected(shop.orders, shop.customers).items():
            wanted[cell.window_start] += total.revenue_cents
        rows = [json.loads(each) for each in _committed_values(place.bootstrap, place.revenue)]
        found = [(f"{row['window_start'][:19]}Z", row["revenue_cents"]) for row in rows]
        report.expect(
            sorted(found) == sorted(wanted.items()),
            f"a declarative pipeline writes each of {len(wanted)} windows once",
            f"{sorted(found)}\nand not\n{sorted(wanted.items())}",
        )


def check_pipelines(report: Report) -> None:
    with scratch() as place:
        _check_declared(report, place / "declared")
        _check_cluster(report, place / "cluster")
        _check_killed(report, place / "stock", "stock Kafka", {})
        _check_killed(report, place / "two-phase", "Kafka with two-phase commit", TWO_PHASE)
