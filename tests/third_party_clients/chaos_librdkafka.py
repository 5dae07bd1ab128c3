"""The clients of a chaos run that are librdkafka: the feeder, and workers in groups."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from chaos_run import (
    CALL_SECONDS_MAX,
    CONSUMER,
    COOPERATIVE,
    EAGER,
    HEARTBEAT_MS,
    INPUTS,
    SESSION_MS,
    WAIT_SECONDS_MAX,
    ChaosRun,
    outputs_of,
)
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import (
    TopicPartition as At,
)

from penstock.model import TopicPartition
from penstock.testing.history import (
    OpenTransaction,
    Pipeline,
    Polled,
    Process,
    Sending,
)

T = TypeVar("T")

BATCH_RECORDS_MAX = 20
POLL_SECONDS = 0.1
FEED_RECORDS = 20
# Shares of transactions that do not simply commit.
ABANDONED, CUT_SHORT, LATE, ABORTS = 0.03, 0.03, 0.05, 0.1
LATE_SECONDS_MAX = 1.5
COMMIT_CUT_SECONDS = 0.002
HANG_SECONDS = 8.0

QUICK: dict[str, Any] = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "socket.timeout.ms": 10_000,
    # Rebootstrapping forgets a pending AddOffsetsToTxn: send_offsets_to_transaction never returns.
    "metadata.recovery.strategy": "none",
    "logger": logging.getLogger("librdkafka"),
}
QUICK["logger"].addHandler(logging.NullHandler())  # it tells of every death of the node
QUICK["logger"].propagate = False

_CLASSIC: dict[str, Any] = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
    "max.poll.interval.ms": 30_000,
}
MEMBERSHIPS: dict[Pipeline, dict[str, Any]] = {
    EAGER: {**_CLASSIC, "partition.assignment.strategy": "range"},
    COOPERATIVE: {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    CONSUMER: {"group.protocol": "consumer"},  # the server says how often
}


class Crash(Exception):
    """This client cannot go on, or is not to: a new one takes its place."""


def persist(call: Callable[[float], T]) -> T:
    """Try again as long as the client says that this may help."""
    until = time.monotonic() + CALL_SECONDS_MAX
    while True:
        try:
            return call(CALL_SECONDS_MAX)
        except KafkaException as problem:
            if not _error(problem).retriable() or time.monotonic() > until:
                raise


def within(seconds: float, call: Callable[[], None]) -> None:
    """Make a call in a thread of its own; raise Crash if it does not return.

    librdkafka's send_offsets_to_transaction ignores its timeout (its issue 5456), and hangs while
    the group's coordinator is missing in the metadata (5511).
    """
    problems: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise Crash
    if problems:
        raise problems[0]


def polled(message: Message) -> Polled:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None and partition is not None and offset is not None
    return Polled(TopicPartition(topic, partition), offset, message.value() or b"")


def place_of(at: At) -> TopicPartition:
    return TopicPartition(at.topic, at.partition)


def delivery(sending: Sending) -> Callable[[KafkaError | None, Message], None]:
    def heard(error: KafkaError | None, message: Message) -> None:
        if error is None:
            sending.ok(message.offset())

    return heard


def consumer_of(run: ChaosRun, group: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            **QUICK,
            "bootstrap.servers": run.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            **settings,
        }
    )


# -- the feeder


def feed(run: ChaosRun) -> None:
    """Numbers into the input topic, by an idempotent producer, until there are enough."""
    process, chance = run.recorder.process("feeder"), run.chance("feeder")
    producer = Producer(
        {**QUICK, "bootstrap.servers": run.bootstrap, "enable.idempotence": True, "linger.ms": 1}
    )
    fed = 0
    while not run.fed_enough.is_set():
        for _ in range(FEED_RECORDS):
            partition, value = chance.choice(INPUTS), b"%d" % fed
            sending = process.send(partition, value)
            producer.produce(
                partition.topic,
                value,
                partition=partition.partition,
                on_delivery=delivery(sending),
            )
            fed += 1
        producer.poll(0)
        run.wait_for_room(fed)
    left = producer.flush(WAIT_SECONDS_MAX)
    assert left == 0, f"{left} inputs were not answered"


# -- consume, transform, produce


class Worker:
    """One member of the group: polls, transforms in a transaction, dies and comes again."""

    def __init__(self, run: ChaosRun, pipeline: Pipeline, name: str) -> None:
        self._run = run
        self._pipeline = pipeline
        self._name = name
        self._chance = run.chance(name)
        self._process: Process = run.recorder.process(name)
        self._attempts = 0
        self._owned: dict[TopicPartition, None] = {}
        self._batch: list[Polled] = []
        # What the life before left behind: its producer, its transaction if it was not decided.
        self._left: Producer | None = None
        self._open: OpenTransaction | None = None
        self._zombie: Producer | None = None  # replaced, and not aware of it

    def work(self) -> None:
        while True:
            membership = MEMBERSHIPS[self._pipeline]
            consumer = consumer_of(self._run, self._pipeline.group, **membership)
            try:
                producer = self._succeed()
                self._live(producer, consumer)
                return
            except Crash:
                self._process.crashed()
            finally:
                consumer.close()

    def _succeed(self) -> Producer:
        """A new producer under the same name ends what the last one left open."""
        producer = Producer(
            {
                **QUICK,
                "bootstrap.servers": self._run.bootstrap,
                "transactional.id": self._name,
                "transaction.timeout.ms": 60_000,
                "linger.ms": 1,
            }
        )
        persist(producer.init_transactions)
        if self._open is not None:
            self._open.aborted()
            self._zombie = self._left
        self._left = self._open = None
        return producer

    def _haunt(self) -> None:
        """The one before comes again while its successor has a transaction open."""
        zombie, self._zombie = self._zombie, None
        if zombie is None:
            return
        try:
            zombie.commit_transaction(CALL_SECONDS_MAX)
            self._run.violation(f"{self._name} was replaced, but could still commit")
        except KafkaException:
            pass  # fenced, as it should be

    def _live(self, producer: Producer, consumer: Consumer) -> None:
        self._batch = []
        self._owned = {}
        self._process.subscribed(self._pipeline.inputs)
        consumer.subscribe(
            list(self._pipeline.inputs),
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        while not self._run.over.is_set():
            self._gather(consumer)
            if self._batch:
                batch, self._batch = self._batch, []
                self._transform(producer, consumer, batch)

    def _assigned(self, _consumer: Consumer, partitions: list[At]) -> None:
        # Of what it has already it is not told again, but by an eager group, which revokes first.
        self._owned.update(dict.fromkeys(place_of(each) for each in partitions))
        self._process.assigned(self._owned)

    def _revoked(self, _consumer: Consumer, partitions: list[At]) -> None:
        gone = [place_of(each) for each in partitions]
        self._process.revoked(gone)
        self._owned = {each: None for each in self._owned if each not in gone}
        self._batch = [each for each in self._batch if each.partition not in gone]

    def _gather(self, consumer: Consumer) -> None:
        wanted = self._chance.randint(1, BATCH_RECORDS_MAX)
        seconds = POLL_SECONDS
        while len(self._batch) < wanted:
            polling = self._process.poll()
            message = consumer.poll(seconds)
            if message is None:
                return
            if message.error() is None:
                polling.got([polled(message)])
                self._batch.append(polled(message))
                seconds = 0.0
            # Errors are told for information: librdkafka goes on by itself.

    def _transform(self, producer: Producer, consumer: Consumer, batch: list[Polled]) -> None:
        """One transaction, to whatever end chance and the node give it."""
        self._attempts += 1
        fate = self._chance.random()
        transaction = self._process.begin(self._name)
        try:
            producer.begin_transaction()
            self._produce(producer, transaction, batch)
            self._send_offsets(producer, consumer, transaction, batch)
            self._haunt()
            if fate < ABANDONED:
                self._left, self._open = producer, transaction
                raise Crash
            if fate > 1 - ABORTS:
                self._abort(producer, consumer, transaction, batch)
                return
            transaction.commit_asked()
            if fate < ABANDONED + CUT_SHORT:
                self._left = producer
                self._cut_short(producer)
            late = fate < ABANDONED + CUT_SHORT + LATE
            if late:  # another takes over its partitions, and must wait for how this ends
                consumer.close()
                self._run.over.wait(self._chance.uniform(0, LATE_SECONDS_MAX))
            persist(producer.commit_transaction)
        except KafkaException as problem:
            if not _error(problem).txn_requires_abort():
                raise Crash from problem
            self._abort(producer, consumer, transaction, batch)
            return
        transaction.committed()
        self._run.committed(self._pipeline)
        if late:
            raise Crash

    def _produce(
        self, producer: Producer, transaction: OpenTransaction, batch: list[Polled]
    ) -> None:
        for place, record in enumerate(batch):
            partition = self._chance.choice(outputs_of(self._pipeline))
            value = record.value + f" {self._name}/{self._attempts}.{place}".encode()
            sending = self._process.send(
                partition, value, transaction=transaction, source=record.place
            )
            producer.produce(
                partition.topic,
                value,
                partition=partition.partition,
                on_delivery=delivery(sending),
            )
        producer.poll(0)

    def _send_offsets(
        self,
        producer: Producer,
        consumer: Consumer,
        transaction: OpenTransaction,
        batch: list[Polled],
    ) -> None:
        following = {each.partition: each.offset + 1 for each in batch}
        committing = self._process.commit_offsets(self._pipeline.group, following, transaction)
        offsets = [At(*place, offset) for place, offset in following.items()]
        group = consumer.consumer_group_metadata()

        def send(seconds: float) -> None:
            producer.send_offsets_to_transaction(offsets, group, seconds)

        try:
            within(HANG_SECONDS, lambda: persist(send))
        except Crash:
            self._left, self._open = producer, transaction
            raise
        committing.ok()

    def _cut_short(self, producer: Producer) -> None:
        """Ask for the commit and do not wait for the answer."""
        try:
            producer.commit_transaction(COMMIT_CUT_SECONDS)
        except KafkaException as problem:
            raise Crash from problem
        raise Crash

    def _abort(
        self,
        producer: Producer,
        consumer: Consumer,
        transaction: OpenTransaction,
        batch: list[Polled],
    ) -> None:
        """Take the transaction back, and the consumer to where it was before."""
        try:
            persist(producer.abort_transaction)
            transaction.aborted()
            first = {each.partition: each.offset for each in reversed(batch)}
            for place, offset in sorted(first.items()):
                consumer.seek(At(*place, offset))
                self._process.sought(place, offset)
        except (KafkaException, RuntimeError) as problem:  # it may be closed by now
            raise Crash from problem


def _error(problem: KafkaException) -> KafkaError:
    error = problem.args[0]
    assert isinstance(error, KafkaError)
    return error
