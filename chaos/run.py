"""One run: a node or three, a query from topic to topic on Spark, kills, and the verdict.

When the kills are over, what is left of older drivers goes too, some rows come in addition, and the
query reads to the end. Then every row must be committed once and nothing may be open. A query may
stop, and is started again; but what it says when it stops is looked at as well.
"""

import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from bench import servers
from chaos.copy_driver import CHECKPOINT, PARTITIONS, SINK_ID, SOURCE, TARGET, set_batch_rows
from chaos.input import Input
from chaos.killing import (
    EVERYBODY,
    Aim,
    Kill,
    Victim,
    freeze,
    kill_orphans,
    take_aim,
    targets,
    thaw,
)
from chaos.moments import Phase, Watch
from chaos.nodes import Nodes, SeveralNodes, SoleNode
from chaos.outcome import Unread, committed_records, left_open
from chaos.spark_process import Member, SparkProcess, kill_all
from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import CannotReach
from penstock.client.values import NewTopic

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
BATCH_ROWS = 40
BATCHES_PER_KILL = 5
ROWS_AT_THE_END = 80
BATCH_ROWS_AT_THE_END = 100_000
MOMENT_SECONDS_MAX = 120.0
END_SECONDS_MAX = 240.0
OLDER_SECONDS_MAX = 3.0
LOOK_SECONDS = 0.02
# Quick to start is all that matters here: no compiled code, in Python or in Java.
BRISK = {"PENSTOCK_BULK": "plain", "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -Xmx512m"}
# Nothing was lost, deleted or restored, so no query has a reason to say this.
NEVER_SAID = re.compile(
    r"rows were lost|cannot tell whether|knows nothing of it|started by different plans"
    r"|failOnDataLoss"
    r"|\b(?:Assertion|Type|Attribute|Key|Index|Value|Name|Runtime|NotImplemented)Error: "
)
WENT_BACK = "the checkpoint went back in time"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a run is told."""

    seed: int
    kills: int
    guarantee: str = EXACTLY_ONCE
    victims: tuple[Victim, ...] = EVERYBODY
    nodes: int = 1

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE


@dataclass
class Verdict:
    """What a run has found; nothing in `problems` if all is well."""

    orders: Orders
    kills: list[Kill] = field(default_factory=list)
    batches: int = 0
    rows: int = 0
    lives: int = 0
    stops: list[str] = field(default_factory=list)
    duplicates: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Stuck(Exception):
    """Nothing moves any more."""


class Run:
    def __init__(self, orders: Orders, folder: Path) -> None:
        self.verdict = Verdict(orders)
        self._orders = orders
        self._folder = folder
        self._chance = Random(f"{orders.seed}/{orders.guarantee}")
        self._nodes: Nodes = (
            SoleNode(folder, self._chance) if orders.nodes == 1 else SeveralNodes(folder)
        )
        self._drivers: list[SparkProcess] = []
        self._went_back_allowed = False
        self._trace = (folder / "kills.txt").open("a")

    def go(self) -> Verdict:
        began, verdict = time.monotonic(), self.verdict
        try:
            self._nodes.start()
            self._live_and_die()
        except (Stuck, Unread, CannotReach, servers.ServerFailed) as problem:
            verdict.problems.append(f"{type(problem).__name__}: {problem}")
        finally:
            for driver in self._drivers:
                driver.kill()
            self._nodes.end()
            self._trace.close()
        verdict.lives = len(self._drivers)
        verdict.stops = [each["why"] for life in self._drivers for each in _stops(life)]
        verdict.problems += self._wrong_words()
        verdict.seconds = time.monotonic() - began
        return verdict

    def _live_and_die(self) -> None:
        bootstrap, replicas = self._nodes.bootstrap, self._orders.nodes
        with Admin(bootstrap=bootstrap) as admin:
            topics = [NewTopic(each, PARTITIONS, replicas) for each in (SOURCE, TARGET)]
            made = admin.create_topics(topics)
        assert not [each for each in made.values() if isinstance(each, Exception)], made
        rows = Input(bootstrap)
        rows.write((self._orders.kills + 1) * BATCHES_PER_KILL * BATCH_ROWS)
        checkpoint = self._folder / CHECKPOINT
        watch = Watch(self._nodes.directories, checkpoint, TARGET, SINK_ID)
        self._start_driver(BATCH_ROWS)
        while len(self.verdict.kills) < self._orders.kills and not self._through():
            aim = take_aim(self._chance, self._orders.victims)
            if aim.moment is Phase.DECIDED and not self._orders.exactly_once:
                aim = replace(aim, moment=Phase.WRITING)  # nothing is ever decided
            self._kill_once(watch, aim)
        self._finish(rows)
        watch.look()
        self.verdict.batches = watch.batches
        self._judge(rows)

    # ---- kills

    def _kill_once(self, watch: Watch, aim: Aim) -> None:
        if aim.moment is not None:
            before = watch.changes
            reached = watch.wait_for(aim.moment, MOMENT_SECONDS_MAX, self._driver_ended)
            if not reached and not self._driver_ended() and watch.changes == before:
                raise Stuck(f"nothing moves:\n{self._drivers[-1].log_tail()}")
        phase = watch.pass_time(aim.delay_ms / 1000)
        if self._driver_ended():
            return
        batch = watch.batches
        for victim in self._strike(watch, aim):
            self.verdict.kills.append(Kill(victim, phase, batch))
            print(
                f"{time.strftime('%H:%M:%S')} batch {batch} {phase}: {victim}"
                f" ({aim.delay_ms:.0f} ms after {aim.moment or 'anything'})",
                file=self._trace,
                flush=True,
            )

    def _strike(self, watch: Watch, aim: Aim) -> list[Victim]:
        """Who was killed: nobody, if there was no such process."""
        killed: list[Victim] = []
        found: list[Member] = []
        if aim.victim not in (Victim.NODE, Victim.OLDER_DRIVER):
            found = targets(self._drivers[-1], aim.victim, self._chance)
            kill_all(found)
        if aim.victim is Victim.NODE or aim.node_too:
            self._nodes.kill_one(self._chance)
            killed.append(Victim.NODE)
        if aim.victim is Victim.OLDER_DRIVER:
            self._replace_frozen(watch)
            killed.append(aim.victim)
        elif aim.victim.ends_driver:
            self._start_driver(BATCH_ROWS)
        return [*killed, aim.victim] if found else killed

    def _replace_frozen(self, watch: Watch) -> None:
        """Two drivers at once: the older does not know that there is another."""
        older = self._drivers[-1]
        frozen = freeze(older)
        self._start_driver(BATCH_ROWS)
        self._went_back_allowed = True
        watch.wait_for(Phase.WRITING, MOMENT_SECONDS_MAX, self._driver_ended)
        watch.pass_time(self._chance.uniform(0, 0.3))
        thaw(frozen)
        watch.pass_time(self._chance.uniform(0.2, OLDER_SECONDS_MAX))
        older.kill()

    # ---- lives

    def _start_driver(self, batch_rows: int) -> None:
        set_batch_rows(self._folder, batch_rows)
        arguments = ["chaos.copy_driver", self._nodes.bootstrap, str(self._folder)]
        arguments += ["--guarantee", self._orders.guarantee]
        # With one attempt a task that dies ends the query, with more Spark repeats the task.
        arguments += ["--attempts", str(self._chance.choice([1, 4]))]
        arguments += ["--tasks", str(self._chance.choice([2, PARTITIONS]))]
        output = self._folder / f"driver-{len(self._drivers)}.out"
        self._drivers.append(SparkProcess(arguments, output, BRISK))

    def _driver_ended(self) -> bool:
        return self._drivers[-1].ended is not None

    def _through(self) -> bool:
        driver = self._drivers[-1]
        if driver.ended is None:
            return False
        if not _is_through(driver):
            raise Stuck(f"the driver ended with {driver.ended}:\n{driver.log_tail()}")
        return True

    def _finish(self, rows: Input) -> None:
        """Nobody is killed from here on, but for one thing: the query stops once more, to begin
        again with larger batches."""
        for older in self._drivers[:-1]:
            older.kill()
        driver = self._drivers[-1]
        kill_orphans(driver)
        rows.write(ROWS_AT_THE_END)
        if driver.ended is None:
            set_batch_rows(self._folder, BATCH_ROWS_AT_THE_END)
            kill_all(targets(driver, Victim.READER, self._chance))
            self._wait_until_through()
        if not _read_all(self._drivers[-1]):
            self._start_driver(BATCH_ROWS_AT_THE_END)
            self._wait_until_through()

    def _wait_until_through(self) -> None:
        until = time.monotonic() + END_SECONDS_MAX
        while not self._through():
            if time.monotonic() > until:
                raise Stuck(f"the query comes to no end:\n{self._drivers[-1].log_tail()}")
            time.sleep(LOOK_SECONDS)

    # ---- the verdict

    def _judge(self, rows: Input) -> None:
        bootstrap, verdict = self._nodes.bootstrap, self.verdict
        verdict.rows = rows.rows
        written = rows.wrong_with(committed_records(bootstrap, SOURCE, PARTITIONS))
        verdict.problems += [f"in the source {each}" for each in written.sentences()]
        found = rows.wrong_with(committed_records(bootstrap, TARGET, PARTITIONS))
        verdict.duplicates = found.more.total()
        if self._orders.exactly_once:
            verdict.problems += found.sentences()
        elif found.missing:
            verdict.problems.append(f"{found.missing.total()} rows are missing")
        if left := left_open(bootstrap, [TARGET], PARTITIONS):
            verdict.problems.append(f"still open or held back: {left}")

    def _wrong_words(self) -> list[str]:
        def wrong(text: str) -> bool:
            back = WENT_BACK in text and not self._went_back_allowed
            return back or NEVER_SAID.search(text) is not None

        return [f"a query stopped with: {each}" for each in self.verdict.stops if wrong(each)]


def _stops(driver: SparkProcess) -> list[dict[str, Any]]:
    return [each for each in driver.told() if each["event"] == "stopped"]


def _is_through(driver: SparkProcess) -> bool:
    told = driver.told()
    return bool(told) and told[-1]["event"] == "through"


def _read_all(driver: SparkProcess) -> bool:
    """Whether its last query began after the last rows were there."""
    return _is_through(driver) and driver.told()[-1]["rows"] == BATCH_ROWS_AT_THE_END
