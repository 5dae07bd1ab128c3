"""`app.test()`: a topology run on given records, without a broker.

    with app.test() as test:
        test.send("orders", {"customer_id": "c1", "amount": 5.0}, at="2026-01-01 00:00:10")
        test.advance("2 minutes")
        assert test.values("revenue-per-minute") == [...]

A topology without state runs as one batch over the sent records. With state it is the real
streaming query on the real state store: every `step()` is a micro-batch, and `advance()` moves
event time.
"""

import datetime
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pyspark.sql import SparkSession

from penstock.streams.durations import advance_of
from penstock.streams.errors import TopologyError
from penstock.streams.processor_test_driver import ProcessorTestDriver
from penstock.streams.queries import TopologyPlan
from penstock.streams.settings import StreamsSettings
from penstock.streams.stores import StateStore, open_store
from penstock.streams.test_driver_queries import QueryTestDriver, RawRecord, driver_session
from penstock.streams.topology import SinkNode, SourceNode

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
ERROR = "penstock.error."
ROUNDS_MAX = 20  # a topology that feeds itself must not run for ever


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """An output record, as its serdes read it."""

    key: Any
    value: Any
    headers: Mapping[str, bytes] = field(default_factory=dict)
    timestamp: datetime.datetime = START  # the time of the write, by the clock of the test


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A bad record: its bytes, the cause, and its origin."""

    key: bytes | None
    value: bytes | None
    cause: str
    topic: str | None  # None if the record came from no topic
    partition: int | None
    offset: int | None


class TopologyTestDriver:
    """A test driver of a topology, with a directory for state and checkpoints. Use it in a
    `with`."""

    def __init__(
        self, settings: StreamsSettings, plan: TopologyPlan, spark: SparkSession | None
    ) -> None:
        self._settings, self._plan = settings, plan
        self._spark = driver_session(spark)
        self._root = Path(tempfile.mkdtemp(prefix="penstock-trial-"))
        self._now = START
        self._log: dict[str, list[RawRecord]] = {}
        self._step = 0
        self._queries = [
            QueryTestDriver(query, settings, self._spark, self._root) for query in plan.queries
        ]

    # -- records in

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        at: str | datetime.datetime | None = None,
        headers: Mapping[str, bytes] | None = None,
        partition: int = 0,
    ) -> None:
        """Send a record; bytes pass unchanged, other values by the serde of the topic's source.

        `at` is its time (UTC), by default that of the newest record before it.
        """
        source = self._source(topic)
        time = self._now if at is None else _time(at)
        self._now = max(self._now, time)
        key_bytes = key if isinstance(key, bytes) else source.key.to_bytes(key)
        value_bytes = value if isinstance(value, bytes) else source.value.to_bytes(value)
        self._append(topic, key_bytes, value_bytes, time, dict(headers or {}), partition)

    def send_all(self, topic: str, values: Iterable[Any], *, key: Any = None) -> None:
        for each in values:
            self.send(topic, each, key=key)

    def step(self) -> None:
        """Start a new micro-batch: later records do not belong to the one before."""
        self._step += 1

    def advance(self, by: str = "1 day") -> None:
        """Move event time on every input, as a later record would."""
        self._now += advance_of(by)
        self._step += 1
        for topic in self._input_topics():
            self._append(topic, None, None, self._now, {}, -1)
        self._step += 1

    # -- results out

    def output(self, topic: str) -> list[OutputRecord]:
        """Return all records of a topic so far, in their order."""
        sink = self._sink(topic)
        self._run()
        return [self._record(sink, each) for each in self._log.get(topic, []) if each.is_output]

    def values(self, topic: str) -> list[Any]:
        return [each.value for each in self.output(topic)]

    def table(self, topic: str) -> dict[Any, Any]:
        """Return the last value of each key, without deleted keys."""
        last: dict[Any, Any] = {}
        for each in self.output(topic):
            last[_hashable(each.key)] = each.value
        return {key: value for key, value in last.items() if value is not None}

    def dead_letters(self) -> list[DeadLetter]:
        self._run()
        return [_dead_letter(each) for each in self._log.get(self._settings.dead_letters, [])]

    def store(self, name: str) -> StateStore:
        self._run()
        checkpoints = {each.name: each.checkpoint for each in self._queries}
        return open_store(name, self._plan, checkpoints.__getitem__, self._spark)

    def processor(self, store: str) -> ProcessorTestDriver:
        """Return a driver of the processor of a named store, without a query."""
        for query in self._queries:
            found = query.processor_of(store)
            if found is not None:
                return found
        raise TopologyError(f"no process(...) has the store {store}")

    # -- life

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()

    # -- inside

    def _run(self) -> None:
        """Run every query on its new records, until there are none."""
        for _ in range(ROUNDS_MAX):
            moved = False
            for query in self._queries:
                for output in query.advance(self._log, self._now):
                    self._log.setdefault(output.topic, []).append(
                        output.placed(len(self._log.get(output.topic, [])))
                    )
                    moved = True
            if not moved:
                return
        raise TopologyError(f"the topology still feeds itself after {ROUNDS_MAX} rounds")

    def _append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        time: datetime.datetime,
        headers: dict[str, bytes],
        partition: int,
    ) -> None:
        log = self._log.setdefault(topic, [])
        record = RawRecord(topic, key, value, time, headers, partition, self._step)
        log.append(record.placed(len(log)))

    def _input_topics(self) -> list[str]:
        found = [node.topic for query in self._plan.queries for node in query.inputs]
        return list(dict.fromkeys(found))

    def _source(self, topic: str) -> SourceNode:
        for query in self._plan.queries:
            for node in query.nodes:
                if isinstance(node, SourceNode) and node.topic == topic:
                    return node
        known = ", ".join(self._input_topics())
        raise TopologyError(f"no source reads {topic}; there are {known}")

    def _sink(self, topic: str) -> SinkNode:
        sinks = [path.sink for query in self._plan.queries for path in query.paths]
        found = next((each for each in sinks if each.topic == topic), None)
        if not isinstance(found, SinkNode):
            known = ", ".join(each.topic for each in sinks)
            raise TopologyError(f"nothing is written to {topic}; there are {known}")
        return found

    def _record(self, sink: SinkNode, raw: RawRecord) -> OutputRecord:
        query = next(each for each in self._queries if sink in each.sinks)
        key_serde, value_serde = query.serdes_of(sink)
        return OutputRecord(
            key_serde.from_bytes(raw.key),
            value_serde.from_bytes(raw.value),
            raw.headers,
            raw.timestamp,
        )


def _time(at: str | datetime.datetime) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(at) if isinstance(at, str) else at
    return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time


def _hashable(key: Any) -> Any:
    return tuple(sorted(key.items())) if isinstance(key, dict) else key


def _dead_letter(raw: RawRecord) -> DeadLetter:
    said = {
        name.removeprefix(ERROR): value.decode() if value else None
        for name, value in raw.headers.items()
        if name.startswith(ERROR)
    }
    partition, offset = said["partition"], said["offset"]
    return DeadLetter(
        raw.key,
        raw.value,
        said["cause"] or "",
        said["topic"],
        None if partition is None else int(partition),
        None if offset is None else int(offset),
    )
