"""The clients of a chaos run that are aiokafka: workers with partitions of their own, a reader.

Its transactions carry no generation of a group, so each worker owns its partitions by its
transactional id: the successor ends what was open, then asks where the group is.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as At
from aiokafka.errors import KafkaError
from chaos_run import (
    AIOKAFKA,
    CALL_SECONDS_MAX,
    EVERYTHING,
    INPUTS,
    WAIT_SECONDS_MAX,
    ChaosRun,
    outputs_of,
)

from penstock.model import TopicPartition
from penstock.testing.history import OpenTransaction, Polled, Process, Sending

BATCH_RECORDS_MAX = 20
POLL_MS = 100
BACKOFF_SECONDS = 0.05
ABORTS, ABANDONED, CUT_SHORT = 0.1, 0.04, 0.04  # shares of transactions that are not to commit
FAILURES = (KafkaError, asyncio.TimeoutError, OSError)

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it tells of every death of the node


class Crash(Exception):
    """This client cannot go on, or is not to: a new one takes its place."""


def polled(record: Any) -> Polled:
    return Polled(TopicPartition(record.topic, record.partition), record.offset, record.value)


def heard(sending: Sending, answer: "asyncio.Future[Any]") -> None:
    if not answer.cancelled() and answer.exception() is None:
        sending.ok(answer.result().offset)


async def bounded(what: Any) -> Any:
    return await asyncio.wait_for(what, CALL_SECONDS_MAX)


async def pause() -> None:
    """Before something is tried again."""
    try:
        await asyncio.wait_for(asyncio.get_running_loop().create_future(), BACKOFF_SECONDS)
    except TimeoutError:
        pass


async def stopped(client: Any) -> None:
    try:
        await bounded(client.stop())
    except FAILURES:
        pass  # what a dying client says to its end is of no interest


class Worker:
    """Owns some partitions: polls, transforms in a transaction, dies and comes again."""

    def __init__(self, run: ChaosRun, name: str, partitions: list[TopicPartition]) -> None:
        self._run = run
        self._name = name
        self._partitions = partitions
        self._chance = run.chance(name)
        self._process: Process = run.recorder.process(name)
        self._attempts = 0
        # What the life before left behind: its producer, its transaction if it was not decided.
        self._left: AIOKafkaProducer | None = None
        self._open: OpenTransaction | None = None
        self._zombie: AIOKafkaProducer | None = None  # replaced, and not aware of it

    async def work(self) -> None:
        while True:
            producer = await self._succeed()
            consumer: AIOKafkaConsumer | None = None
            try:
                consumer = await self._take_place()
                await self._live(producer, consumer)
                await stopped(producer)
                if self._zombie is not None:
                    await stopped(self._zombie)
                return
            except (Crash, *FAILURES):
                self._process.crashed()
                if self._left is not producer:
                    await stopped(producer)
            finally:
                if consumer is not None:
                    await stopped(consumer)

    async def _succeed(self) -> AIOKafkaProducer:
        """A new producer under the same name ends what the last one left open."""
        until = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._run.bootstrap,
                transactional_id=self._name,
                retry_backoff_ms=20,
                request_timeout_ms=10_000,
            )
            try:
                await bounded(producer.start())
                break
            except FAILURES:
                await stopped(producer)
                if time.monotonic() > until:
                    raise
                await pause()
        if self._open is not None:
            self._open.aborted()
            self._zombie = self._left
        elif self._left is not None:
            await stopped(self._left)
        self._left = self._open = None
        return producer

    async def _haunt(self) -> None:
        """The one before comes again while its successor has a transaction open."""
        zombie, self._zombie = self._zombie, None
        if zombie is None:
            return
        try:
            await bounded(zombie.commit_transaction())
            self._run.violation(f"{self._name} was replaced, but could still commit")
        except FAILURES:
            pass  # fenced, as it should be
        await stopped(zombie)

    async def _take_place(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._run.bootstrap,
            group_id=AIOKAFKA.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            retry_backoff_ms=20,
            request_timeout_ms=10_000,
            fetch_max_wait_ms=POLL_MS,
        )
        try:
            await bounded(consumer.start())
            places = [At(*each) for each in self._partitions]
            consumer.assign(places)
            self._process.assigned(self._partitions)
            for place, offset in (await self._progress(consumer, places)).items():
                consumer.seek(place, offset)
                self._process.sought(TopicPartition(*place), offset)
        except BaseException:
            await stopped(consumer)
            raise
        return consumer

    async def _progress(self, consumer: AIOKafkaConsumer, places: list[At]) -> dict[At, int]:
        """Where the group is.

        aiokafka overlooks the error of a whole OffsetFetch, and says that nothing is committed: so
        offset 0 is committed once, and from then on nothing is no answer.
        """
        fetching = self._process.fetch_offsets(AIOKAFKA.group)
        found = {each: await bounded(consumer.committed(each)) for each in places}
        progress = {each: offset for each, offset in found.items() if offset is not None}
        if len(progress) == len(places):
            fetching.got({TopicPartition(*each): offset for each, offset in progress.items()})
        elif self._attempts:
            raise Crash
        else:
            progress = dict.fromkeys(places, 0)
            beginning = {TopicPartition(*each): 0 for each in places}
            committing = self._process.commit_offsets(AIOKAFKA.group, beginning)
            await bounded(consumer.commit(progress))
            committing.ok()
        return progress

    async def _live(self, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer) -> None:
        while not self._run.over.is_set():
            wanted = self._chance.randint(1, BATCH_RECORDS_MAX)
            polling = self._process.poll()
            found = await consumer.getmany(timeout_ms=POLL_MS, max_records=wanted)
            batch = [polled(record) for records in found.values() for record in records]
            polling.got(batch)
            if batch:
                await self._transform(producer, consumer, batch)

    async def _transform(
        self, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, batch: list[Polled]
    ) -> None:
        """One transaction, to whatever end chance and the node give it."""
        self._attempts += 1
        fate = self._chance.random()
        await bounded(producer.begin_transaction())
        transaction = self._process.begin(self._name)
        await self._produce(producer, transaction, batch)
        await self._send_offsets(producer, transaction, batch)
        await self._haunt()
        if fate < ABANDONED:
            self._left, self._open = producer, transaction
            raise Crash
        if fate > 1 - ABORTS:
            await bounded(producer.abort_transaction())
            transaction.aborted()
            first = {each.partition: each.offset for each in reversed(batch)}
            for place, offset in sorted(first.items()):
                consumer.seek(At(*place), offset)
                self._process.sought(place, offset)
            return
        transaction.commit_asked()
        if fate < ABANDONED + CUT_SHORT:
            self._left = producer
            await self._cut_short(producer)
        await bounded(producer.commit_transaction())
        transaction.committed()
        self._run.committed(AIOKAFKA)

    async def _produce(
        self, producer: AIOKafkaProducer, transaction: OpenTransaction, batch: list[Polled]
    ) -> None:
        for place, record in enumerate(batch):
            partition = self._chance.choice(outputs_of(AIOKAFKA))
            value = record.value + f" {self._name}/{self._attempts}.{place}".encode()
            sending = self._process.send(
                partition, value, transaction=transaction, source=record.place
            )
            answer = await bounded(
                producer.send(partition.topic, value, partition=partition.partition)
            )
            answer.add_done_callback(lambda answer, sending=sending: heard(sending, answer))

    async def _send_offsets(
        self, producer: AIOKafkaProducer, transaction: OpenTransaction, batch: list[Polled]
    ) -> None:
        following = {each.partition: each.offset + 1 for each in batch}
        committing = self._process.commit_offsets(AIOKAFKA.group, following, transaction)
        offsets = {At(*place): offset for place, offset in following.items()}
        await bounded(producer.send_offsets_to_transaction(offsets, AIOKAFKA.group))
        committing.ok()

    async def _cut_short(self, producer: AIOKafkaProducer) -> None:
        """Ask for the commit and do not wait for the answer."""
        commit = asyncio.ensure_future(producer.commit_transaction())
        commit.add_done_callback(lambda commit: commit.cancelled() or commit.exception())
        await asyncio.wait([commit], timeout=self._chance.uniform(0, 0.01))
        raise Crash


async def _read_to_end(run: ChaosRun, find_ends: Callable[[], dict[TopicPartition, int]]) -> None:
    process = run.recorder.process("reader-aiokafka")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=run.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await bounded(consumer.start())
    try:
        reading = {each: process.read_to_end(each) for each in EVERYTHING}
        ends = find_ends()
        process.assigned(EVERYTHING)
        consumer.assign([At(*each) for each in EVERYTHING])
        for each in EVERYTHING:
            consumer.seek(At(*each), 0)
            process.sought(each, 0)
        until = time.monotonic() + WAIT_SECONDS_MAX
        while reading:
            assert time.monotonic() < until, f"not read to the end: {sorted(reading)} of {ends}"
            polling = process.poll()
            found = await consumer.getmany(timeout_ms=POLL_MS)
            polling.got(polled(record) for records in found.values() for record in records)
            for each in list(reading):
                if await consumer.position(At(*each)) >= ends[each]:
                    reading.pop(each).reached(ends[each])
    finally:
        await stopped(consumer)


def read_to_end(run: ChaosRun, find_ends: Callable[[], dict[TopicPartition, int]]) -> None:
    """Everything from its beginning to its end, once the run is over."""
    asyncio.run(_read_to_end(run, find_ends))


def run_workers(run: ChaosRun) -> None:
    """A loop of its own, on a thread of the run."""

    async def everyone() -> None:
        half = len(INPUTS) // 2
        async with asyncio.TaskGroup() as group:
            group.create_task(Worker(run, "aiokafka-1", INPUTS[:half]).work())
            group.create_task(Worker(run, "aiokafka-2", INPUTS[half:]).work())

    asyncio.run(everyone())
