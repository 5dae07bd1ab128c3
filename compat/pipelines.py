"""The order pipeline on a Spark cluster, and against Apache Kafka while its driver is killed.

Every order must be in the copy once, and every window in the results once, with its totals; no
transaction may stay open.
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from bench.servers import running, scratch, stand_in
from chaos.outcome import committed_records, left_open
from chaos.spark_process import SparkProcess
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
from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic

SEED = 5
ORDERS = 8_000
ORDERS_PER_MINUTE = 800
ORDERS_AT_ONCE = 100
KILLS = 4
LIFE_SECONDS_MAX = 900
LOOK_SECONDS = 0.02

Results = list[tuple[Cell, Total]]


class Shop:
    """What was written to a cluster, and so what must come out."""

    def __init__(self, place: Place) -> None:
        self.customers: list[Customer] = customers(SEED)
        arrived = list(itertools.islice(orders(SEED, ORDERS_PER_MINUTE), ORDERS))
        self.orders: list[Order] = [*arrived, closing_order(arrived)]
        create_topics(place)
        with Admin(bootstrap=place.bootstrap) as admin:
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
        left = left_open(place.bootstrap, [place.revenue, copy_topic(place)], PARTITIONS)
        report.expect(not left, f"{how}: nothing is open, nobody is held back", left)


def _results(found: list[list[list[Any]]]) -> Results:
    return [(Cell(*cell), Total(*total)) for cell, total in found]


def _committed_values(bootstrap: str, topic: str) -> list[bytes]:
    return [each.value for each in committed_records(bootstrap, topic, PARTITIONS)]


class Driver:
    """A life of the pipeline."""

    def __init__(self, place: Place, master: str | None = None) -> None:
        self._commits = Path(place.checkpoint(COPY)) / "commits"
        arguments = ["compat.order_driver", place.bootstrap, str(place.folder)]
        arguments += ["--master", master] if master else []
        self.process = SparkProcess(arguments, place.folder / "driver.out")

    def finish(self) -> dict[str, Any]:
        return self.process.finish(LIFE_SECONDS_MAX)

    def kill_after_a_batch(self, chance: Random) -> bool:
        """Whether it was still alive: at some moment after it has committed another batch."""
        before, until = self._batches(), time.monotonic() + LIFE_SECONDS_MAX
        try:
            while self._batches() == before:
                if self.process.ended is not None or time.monotonic() > until:
                    return False
                time.sleep(LOOK_SECONDS)
            time.sleep(chance.random() * 1.5)
            alive = self.process.ended is None
            if chance.random() < 0.5:
                self.process.process.kill()  # Python alone: Java finds out, and ends by itself
                self.process.wait_until_gone()
            return alive
        finally:
            self.process.kill()

    def _batches(self) -> int:
        if not self._commits.exists():
            return 0
        return sum(each.name.isdecimal() for each in self._commits.iterdir())


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
