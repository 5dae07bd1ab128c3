"""Histories of a cluster without fault, by chance: what the checker must find nothing wrong with.

Each actor is a generator that stops after every step; a seed decides who takes the next one.
Answers get lost, sends are refused, transactions are aborted or left without an answer.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from penstock.model import TopicPartition
from penstock.testing.history import (
    History,
    Isolation,
    OpenTransaction,
    Pipeline,
    Place,
    Polled,
    Process,
    Recorder,
)

PARTITIONS = 2
SENDS = 25  # per producer
OUTPUTS_PER_INPUT = 2
POLL_RECORDS_MAX = 4
GROUP = "workers"
PIPELINE = Pipeline(GROUP, ("in",), ("out",), OUTPUTS_PER_INPUT)

Steps: TypeAlias = Iterator[None]


@dataclass
class Entry:
    """One offset of a log; without a value it is a marker."""

    value: bytes | None
    transaction: int | None = None


@dataclass
class PerfectCluster:
    """Logs, transactions and group progress, as Kafka promises them."""

    logs: dict[TopicPartition, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    progress: dict[TopicPartition, int] = field(default_factory=dict)

    def append(self, partition: TopicPartition, value: bytes, transaction: int | None) -> int:
        if transaction is not None:
            self.open.add(transaction)
        self.logs[partition].append(Entry(value, transaction))
        return len(self.logs[partition]) - 1

    def end(
        self, transaction: int, offsets: dict[TopicPartition, int] | None, *, commit: bool
    ) -> None:
        """`offsets` is the progress that goes with it."""
        self.open.discard(transaction)
        if commit:
            self.progress |= offsets or {}
        else:
            self.aborted.add(transaction)
        for log in self.logs.values():
            if any(each.transaction == transaction for each in log):
                log.append(Entry(None))

    def read(
        self, partition: TopicPartition, position: int, isolation: Isolation, limit: int
    ) -> tuple[list[Polled], int]:
        """Records from a position on, and the position after them."""
        found: list[Polled] = []
        for offset, entry in enumerate(self.logs[partition][position:], position):
            hidden = isolation is Isolation.READ_COMMITTED
            if len(found) == limit or (hidden and entry.transaction in self.open):
                return found, offset
            if entry.value is not None and not (hidden and entry.transaction in self.aborted):
                found.append(Polled(partition, offset, entry.value))
        return found, len(self.logs[partition])


def partitions_of(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


class RandomRun:
    """Producers, workers and readers over a perfect cluster."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.cluster = PerfectCluster()
        self.recorder = Recorder()
        self.busy = 0  # producers and workers that are not done
        self.feeding = 0

    def history(self) -> History:
        actors = [self._feed(name) for name in ("feeder-1", "feeder-2")]
        actors += [self._work(f"worker-{each.partition}", each) for each in partitions_of("in")]
        self.feeding, self.busy = 2, len(actors)
        actors += [self._follow(each) for each in Isolation]
        while actors:
            actor = self.chance.choice(actors)
            if next(actor, "done") == "done":
                actors.remove(actor)
        self._finish()
        return self.recorder.history()

    # -- producers

    def _feed(self, name: str) -> Steps:
        process = self.recorder.process(name)
        for number in range(SENDS):
            partition = self.chance.choice(partitions_of("in"))
            yield from self._send(process, partition, f"{name}/{number}".encode(), None, None)
        self.feeding -= 1
        self.busy -= 1

    def _send(
        self,
        process: Process,
        partition: TopicPartition,
        value: bytes,
        transaction: OpenTransaction | None,
        source: Place | None,
    ) -> Steps:
        sending = process.send(partition, value, transaction=transaction, source=source)
        number = None if transaction is None else transaction.number
        yield
        fate = self.chance.random()
        if fate < 0.05 and transaction is None:
            sending.failed()
        elif fate < 0.1 and transaction is None:
            pass  # the request was lost
        else:
            offset = self.cluster.append(partition, value, number)
            yield
            if fate > 0.2:
                sending.ok(offset)
            elif fate > 0.15:
                sending.ok(-1)

    # -- consume, transform, produce

    def _work(self, name: str, partition: TopicPartition) -> Steps:
        process = self.recorder.process(name)
        process.assigned([partition])
        position = self.cluster.progress.get(partition, 0)
        attempts = 0
        while True:
            done = self.feeding == 0
            polling = process.poll()
            yield
            records, following = self.cluster.read(
                partition, position, Isolation.READ_COMMITTED, self.chance.randint(1, 4)
            )
            polling.got(records)
            if records:
                attempts += 1
                yield from self._transform(process, records, following, attempts)
                position = self.cluster.progress.get(partition, 0)
            elif done:
                self.busy -= 1
                return

    def _transform(
        self, process: Process, records: list[Polled], following: int, attempt: int
    ) -> Steps:
        """One transaction, to whatever end."""
        transaction = process.begin(process.name)
        self.cluster.open.add(transaction.number)
        for record in records:
            for copy in range(OUTPUTS_PER_INPUT):
                value = record.value + f" {process.name}/{attempt}/{copy}".encode()
                partition = self.chance.choice(partitions_of("out"))
                yield from self._send(process, partition, value, transaction, record.place)
        offsets = {records[0].partition: following}
        committing = process.commit_offsets(GROUP, offsets, transaction)
        yield
        committing.ok()
        fate = self.chance.random()
        if fate < 0.6:
            transaction.commit_asked()
            yield
            self.cluster.end(transaction.number, offsets, commit=True)
            yield
            transaction.committed()
        elif fate < 0.75:
            self.cluster.end(transaction.number, None, commit=False)
            yield
            transaction.aborted()
            process.sought(records[0].partition, records[0].offset)
        else:
            if fate < 0.95:
                transaction.commit_asked()
            yield
            self.cluster.end(transaction.number, offsets, commit=fate < 0.85)
            process.crashed()

    # -- readers

    def _follow(self, isolation: Isolation) -> Steps:
        process = self.recorder.process(f"reader-{isolation.value}", isolation)
        everything = partitions_of("in") + partitions_of("out")
        process.assigned(everything)
        positions = dict.fromkeys(everything, 0)
        while self.busy or any(
            positions[each] < len(self.cluster.logs[each]) for each in everything
        ):
            polling = process.poll()
            yield
            polled: list[Polled] = []
            for each in self.chance.sample(everything, self.chance.randint(1, 3)):
                limit = self.chance.randint(1, POLL_RECORDS_MAX)
                found, positions[each] = self.cluster.read(each, positions[each], isolation, limit)
                polled += found
            polling.got(polled)
            if self.chance.random() < 0.1:
                fetching = process.fetch_offsets(GROUP)
                fetching.got({each: self.cluster.progress.get(each) for each in everything[:2]})

    def _finish(self) -> None:
        """The end of a run: the group's progress, then everything once more from the beginning."""
        process = self.recorder.process("auditor")
        fetching = process.fetch_offsets(GROUP)
        fetching.got({each: self.cluster.progress.get(each) for each in partitions_of("in")})
        for each in partitions_of("in") + partitions_of("out"):
            reading = process.read_to_end(each)
            end = len(self.cluster.logs[each])
            records, _ = self.cluster.read(each, 0, Isolation.READ_COMMITTED, end + 1)
            process.poll().got(records)
            reading.reached(end)


def random_history(seed: int) -> History:
    return RandomRun(seed).history()
