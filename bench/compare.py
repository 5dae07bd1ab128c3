"""Rounds: both servers by turns, never at once, each over an empty directory."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from bench import programs, topics, usage
from bench.cluster import SHORT, three_nodes
from bench.programs import LoadFailed
from bench.replicated_rows import half_rate as replicated_half_rate
from bench.replicated_rows import warm_up as warm_up_replicas
from bench.row import Context, Row, Sample, Suite
from bench.rows import fill_offsets, raw_produce
from bench.secured import secure
from bench.servers import Ports, ServerFailed, running, scratch, stand_in
from bench.stats import Spread, ratio_of

WARMUP_SECONDS = 10.0
WARMUP_SECONDS_QUICK = 2.0
IDLE_SECONDS = 10.0
IDLE_SECONDS_QUICK = 3.0
DURABILITY_SECONDS = 60.0
SELF_VARIABLE = "PENSTOCK_BENCH_SELF"

# The two sides of a row: Penstock and Apache Kafka, or two ways to run Penstock.
OURS, THEIRS = "penstock", "kafka"
DURABLE: Mapping[str, Mapping[str, str]] = {
    OURS: {"log.durability": "fsync"},
    THEIRS: {"log.durability": "page-cache"},
}
# A new group's wait for more members is no work of a server: the same on both sides.
BOTH: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "0"}
# The settings of the suites of three nodes, beside Kafka's defaults: of Penstock, of Kafka.
SYNCED: Mapping[str, str] = {"log.durability": "fsync"}
FLUSHED: Mapping[str, str] = {"log.flush.interval.messages": "1"}
CLUSTERS: Mapping[Suite, tuple[Mapping[str, str], Mapping[str, str]]] = {
    Suite.CLUSTER: ({}, {}),
    Suite.REPLICATED: ({}, {}),
    Suite.REPLICATED_SYNCED: (SYNCED, {}),
    Suite.REPLICATED_FLUSHED: (SYNCED, FLUSHED),
    Suite.KILLS: ({}, {}),
    Suite.KILLS_SHORT: (SHORT, SHORT),
}
REPLICATED = (Suite.REPLICATED, Suite.REPLICATED_SYNCED, Suite.REPLICATED_FLUSHED)
ALONE = (Suite.TESTKIT_ALONE, Suite.KILLS, Suite.KILLS_SHORT)  # without another side
# What comes nearest when Apache Kafka stands in for Penstock.
DURABLE_STAND_IN: Mapping[str, Mapping[str, str]] = {
    OURS: {"log.flush.interval.messages": "1"},
    THEIRS: {},
}


@dataclass(frozen=True, slots=True)
class Plan:
    rows: Sequence[Row]
    rounds: int
    seconds: float
    quick: bool = False


@dataclass(slots=True)
class Result:
    """A row's samples so far, one list per side, and what went wrong."""

    row: Row
    samples: dict[str, list[Sample]] = field(default_factory=lambda: {OURS: [], THEIRS: []})
    failures: list[str] = field(default_factory=list)

    def spread(self, side: str) -> Spread | None:
        values = [sample.value for sample in self.samples[side]]
        return Spread.of(values) if values else None

    def cpu(self, side: str) -> float | None:
        known = [s.cpu_s_per_million for s in self.samples[side] if s.cpu_s_per_million is not None]
        return Spread.of(known).median if known else None

    @property
    def ratio(self) -> float | None:
        ours, theirs = self.spread(OURS), self.spread(THEIRS)
        return ratio_of(ours, theirs) if ours and theirs else None

    @property
    def met(self) -> bool | None:
        """None where there is no target, or nothing to hold against it."""
        target, ours = self.row.target, self.spread(OURS)
        if target is None or ours is None:
            return None
        value = ours.median if target.unit else self.ratio
        return None if value is None else target.met_by(value)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def warm_up(context: Context, quick: bool) -> None:
    """Small and pipelined requests, until a JVM has compiled what it needs."""
    server = context.server
    length = WARMUP_SECONDS_QUICK if quick else WARMUP_SECONDS
    topics.create(server.bootstrap, "warm-up", 10)
    for connections, pipeline in ((10, 16), (100, 1)):
        programs.load(
            "produce",
            length / 2,
            **context.raw_access,
            topic="warm-up",
            partitions=10,
            connections=connections,
            pipeline=pipeline,
        )
    topics.delete(server.bootstrap, "warm-up")


@contextmanager
def prepared(side: str, suite: Suite, plan: Plan, half_rate: float) -> Iterator[Context]:
    """A server as a suite wants it, and nothing left of it afterwards."""
    alone = suite in (Suite.CLIENTS, Suite.DURABILITY)  # Penstock on both sides
    kind = stand_in(OURS, SELF_VARIABLE) if alone else side
    kind = stand_in(kind, SELF_VARIABLE)
    if suite in CLUSTERS:
        settings = CLUSTERS[suite][kind == THEIRS]
        with scratch() as place, three_nodes(kind, place, settings) as cluster:
            first = cluster.nodes[0].running()
            context = Context(first, plan.seconds, plan.quick, half_rate, side, cluster=cluster)
            if suite in REPLICATED:
                warm_up_replicas(context, WARMUP_SECONDS_QUICK if plan.quick else WARMUP_SECONDS)
            yield context
        return
    changes = BOTH
    seconds = plan.seconds
    if suite is Suite.DURABILITY:
        changes = (DURABLE if kind == OURS else DURABLE_STAND_IN)[side]
        seconds = plan.seconds if plan.quick else DURABILITY_SECONDS
    with scratch() as place:
        data: Path = place / "data"
        ports, secured = None, None
        if suite is Suite.SECURED:
            ports = Ports.free()
            secured, opened = secure(place, kind, ports)
            changes = {**changes, **opened}
        if suite in (Suite.FRESH, Suite.LOADING):  # the second start is the one that is measured
            with running(kind, data) as first:
                if suite is Suite.LOADING:
                    fill_offsets(first, plan.quick)
        with running(kind, data, changes=changes, ports=ports, clean=False) as server:
            context = Context(server, seconds, plan.quick, half_rate, side, secured=secured)
            if suite in (Suite.WARM, Suite.SECURED, Suite.CLIENTS, Suite.DURABILITY):
                warm_up(context, plan.quick)
            if suite is Suite.FRESH:
                time.sleep(IDLE_SECONDS_QUICK if plan.quick else IDLE_SECONDS)
                context.idle_memory = usage.memory(server.pids())
            yield context


def half_of_kafkas_rate(plan: Plan) -> float:
    """Apache Kafka's closed-loop rate with 100 connections, halved."""
    say("calibrating: Apache Kafka's own rate with 100 connections")
    with prepared(THEIRS, Suite.WARM, plan, 0.0) as context:
        return raw_produce(connections=100)(context).value / 2


def half_of_kafkas_replicated_rates(plan: Plan) -> Mapping[int, float]:
    """Half of Apache Kafka's rates for three replicas, by the size of a message."""
    say("calibrating: Apache Kafka's own rates with three replicas")
    with prepared(THEIRS, Suite.REPLICATED, plan, 0.0) as context:
        return {size: replicated_half_rate(size, context) for size in (100, 1000)}


def _measure_suite(
    side: str,
    suite: Suite,
    plan: Plan,
    half_rate: float,
    results: dict[str, Result],
    half_rates: Mapping[int, float],
) -> None:
    rows = [row for row in plan.rows if row.suite is suite]
    if not rows:
        return
    try:
        with prepared(side, suite, plan, half_rate) as context:
            context.half_rates = half_rates
            for row in rows:
                try:
                    sample = row.measure(context)
                except (LoadFailed, KafkaException) as failure:
                    results[row.name].failures.append(f"{side}: {failure}")
                    say(f"  {side:9} {row.name:16} FAILED {failure}")
                else:
                    results[row.name].samples[side].append(sample)
                    say(f"  {side:9} {row.name:16} {sample.value:14,.1f} {row.unit}")
    except (ServerFailed, LoadFailed, KafkaException) as failure:
        say(f"  {side:9} {suite.value}: {failure}")
        for row in rows:
            results[row.name].failures.append(f"{side}: {failure}")


def compare(plan: Plan) -> list[Result]:
    """All rounds; who begins changes from round to round."""
    results = {row.name: Result(row) for row in plan.rows}
    half_rate = half_of_kafkas_rate(plan) if "p99" in results else 0.0
    paced = any(name.startswith("replicated-p99") for name in results)
    half_rates = half_of_kafkas_replicated_rates(plan) if paced else {}
    for number in range(plan.rounds):
        sides = (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS)
        for suite in Suite:
            if any(row.suite is suite for row in plan.rows):
                say(f"round {number + 1} of {plan.rounds}: {suite.value}")
            for side in (OURS,) if suite in ALONE else sides:
                _measure_suite(side, suite, plan, half_rate, results, half_rates)
    return list(results.values())
