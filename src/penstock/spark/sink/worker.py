"""A task's side of the sink on a real cluster: a transaction of its own worker process, or none.

The worker's name is random and made after the fork, so that no other process, on this machine or
another, ever uses its transactional ids.
"""

import functools
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.bulk.encode import BatchEncoder, EncodedBatch, WriterIdentity
from penstock.client.admin.blocking import Admin
from penstock.client.cluster.topics import ask_topics
from penstock.client.raw.batch_writer import BatchWriter
from penstock.client.raw.outcomes import TopicMissing
from penstock.client.raw.transactions import (
    TransactionAbilities,
    abilities_of,
    add_partitions,
    end_transaction,
    init_producer_id,
)
from penstock.client.transport.connection import CannotReach, NotAuthenticated
from penstock.client.values import TopicDescription
from penstock.errors import (
    KafkaError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.model import TopicPartition
from penstock.spark.environment import now_ms
from penstock.spark.options.sink import SinkOptions
from penstock.spark.sink.decisions import BatchName, SinkProducer
from penstock.spark.sink.digest import digest_of
from penstock.spark.sink.identity import WORKER_TOKEN_BYTES, driver_id, worker_id
from penstock.spark.sink.retry_reads import patiently
from penstock.spark.sink.rows import Part, parts_of
from penstock.spark.sink.task import Slots, TaskPart, TaskPlan, TaskReport

# The number of transactional ids that a task may try, and the time for each.
OPEN_ATTEMPTS_MAX = 20
OPEN_TIMEOUT_MS = 60_000
OPEN_PAUSE_MS_MIN = 20
OPEN_PAUSE_MS_MAX = 1_000
ABORT_RETRY_MS = 5_000
# The time for a topic that the broker may be creating.
CREATE_TIMEOUT_MS = 5_000
CREATE_PAUSE_MS_MIN = 10
CREATE_PAUSE_MS_MAX = 250

_log = logging.getLogger(__name__)


@dataclass
class WorkerProcess:
    """The state of a worker process: its name, and its free transactional ids."""

    token: str
    slots: dict[tuple[str, str], Slots] = field(default_factory=dict)
    no_two_phase_commit: set[str] = field(default_factory=set)


@functools.cache
def _worker(process_id: int) -> WorkerProcess:
    """Return the state of this process; a forked process has another pid, and gets its own."""
    del process_id
    return WorkerProcess(secrets.token_hex(WORKER_TOKEN_BYTES))


class CannotOpen(Exception):
    """No transaction could be opened."""


class TaskFenced(Exception):
    """The batch was given up, or another driver has taken over: this task will not be committed."""


class RowsWriter:
    """Encodes rows and sends them to their partitions, as one producer."""

    def __init__(
        self,
        admin: Admin,
        options: SinkOptions,
        identity: WriterIdentity,
        abilities: TransactionAbilities,
        transactional_id: str | None = None,
    ) -> None:
        self._admin = admin
        self._options = options
        self._identity = identity
        self._transactional_id = transactional_id
        self._must_add = transactional_id is not None and abilities.must_add_partitions
        self._added: dict[TopicPartition, None] = {}
        self._encoders: dict[str, BatchEncoder] = {}
        self._writer = BatchWriter(
            admin.nodes,
            acks=options.acks,
            request_timeout_ms=options.request_timeout_ms,
            delivery_timeout_ms=options.delivery_timeout_ms,
            transactional_id=transactional_id,
            version_max=abilities.produce_version_max if transactional_id is not None else None,
        )

    def write(self, part: Part) -> None:
        encoder = self._encoders.get(part.topic) or self._encoder(part.topic)
        self._send(part.topic, encoder.encode(*part.columns))

    def finish(self) -> dict[TopicPartition, int]:
        """Wait for all acknowledgements. Return the number of rows by partition."""
        for topic, encoder in self._encoders.items():
            self._send(topic, encoder.flush())
        self._writer.flush()
        return {place: each.records for place, each in self._writer.acknowledged.items()}

    def _send(self, topic: str, encoded: Iterable[EncodedBatch]) -> None:
        ready = [(TopicPartition(topic, each.partition), each) for each in encoded]
        if self._must_add:
            self._add(place for place, _ in ready)
        for place, each in ready:
            self._writer.send(place, each.batch, each.records)

    def _add(self, places: Iterable[TopicPartition]) -> None:
        """Add a partition to the transaction before the first write (transactions v1)."""
        fresh = [each for each in dict.fromkeys(places) if each not in self._added]
        if fresh:
            assert self._transactional_id is not None
            producer = self._identity.producer_id, self._identity.epoch
            add_partitions(self._admin.routes, self._transactional_id, producer, fresh)
            self._added.update(dict.fromkeys(fresh))

    def _encoder(self, topic: str) -> BatchEncoder:
        found = self._described(topic)
        options = self._options
        encoder = self._encoders[topic] = BatchEncoder(
            len(found.partitions),
            identity=self._identity,
            compression=options.compression,
            level=options.compression_level,
            batch_bytes_max=options.batch_bytes,
            now_ms=now_ms,
            seed=secrets.randbelow(len(found.partitions)),
        )
        return encoder

    def _described(self, topic: str) -> TopicDescription:
        """Return the topic. The broker creates a missing one, as for Kafka's producers."""
        deadline = time.monotonic() + CREATE_TIMEOUT_MS / 1000
        pause_ms = CREATE_PAUSE_MS_MIN
        while True:
            found = patiently(
                lambda: ask_topics(self._admin.nodes, [topic], create=True)[topic],
                self._options.request_timeout_ms,
            )
            if isinstance(found, TopicDescription):
                return found
            if not found.retriable:
                raise found
            if time.monotonic() > deadline:
                missing = isinstance(found, UnknownTopicOrPartition)
                raise TopicMissing(TopicPartition(topic, 0)) if missing else found
            time.sleep(pause_ms / 1000)
            pause_ms = min(CREATE_PAUSE_MS_MAX, pause_ms * 2)


@dataclass
class Opened:
    """A transaction of this task."""

    transactional_id: str
    producer: SinkProducer
    timeout_ms: int | None
    writer: RowsWriter


def write_at_least_once(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows idempotently, without a transaction: a repeated batch is written twice."""
    rows = 0
    with options.connect() as admin:
        writer: RowsWriter | None = None
        for part in _parts(options, batches):
            writer = writer or _plain_writer(admin, options)
            writer.write(part)
            rows += part.rows
        if writer is not None:
            writer.finish()
    return rows


def write_part(
    options: SinkOptions, plan: TaskPlan, batch: BatchName, batches: Iterable[pa.RecordBatch]
) -> TaskReport:
    """Write all rows of a task in a transaction, which the driver will end. Rows of a decided batch
    are only counted."""
    part = TaskPart(plan, batch)
    with options.connect() as admin:
        opened: Opened | None = None
        try:
            for rows in _parts(options, batches):
                part.counted(rows.rows, digest_of(rows) if plan.digest_rows else 0)
                if not part.writes:
                    continue
                if opened is None:
                    opened = _open(admin, options, plan)
                    part.opened(
                        opened.transactional_id, opened.producer, now_ms(), opened.timeout_ms
                    )
                opened.writer.write(rows)
            if opened is not None:
                part.wrote(opened.writer.finish())
                _check_driver(admin, plan)
        except BaseException:
            if opened is not None:
                _abort(admin, opened)
            raise
    return part.report()


def _parts(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Iterator[Part]:
    for batch in batches:
        yield from parts_of(batch, options.topic)


def _plain_writer(admin: Admin, options: SinkOptions) -> RowsWriter:
    given = init_producer_id(admin.routes, None)
    identity = WriterIdentity(given.producer_id, given.epoch, transactional=False)
    return RowsWriter(admin, options, identity, _abilities(admin, options))


def _abilities(admin: Admin, options: SinkOptions) -> TransactionAbilities:
    return patiently(lambda: abilities_of(admin.nodes.any()), options.request_timeout_ms)


def _open(admin: Admin, options: SinkOptions, plan: TaskPlan) -> Opened:
    """Open a transaction under an id that no other process may abort.

    An id whose InitProducerId was not answered is given up: the request could still arrive and
    abort the rows.
    """
    worker = _worker(os.getpid())
    slots = worker.slots.setdefault((options.bootstrap, plan.sink_id), Slots())
    abilities = _abilities(admin, options)
    wanted = plan.two_phase_commit and abilities.two_phase_commit
    problem: CannotReach | None = None
    pause_ms = OPEN_PAUSE_MS_MIN
    for _ in range(OPEN_ATTEMPTS_MAX):
        two_phase = wanted and options.bootstrap not in worker.no_two_phase_commit
        ordinal = slots.take(plan.carried.driver.producer)
        name = worker_id(plan.sink_id, worker.token, ordinal)
        try:
            producer_id, epoch = _init(admin, options, name, two_phase)
        except (TransactionalIdAuthorizationFailed, UnsupportedVersion):
            if not two_phase:
                raise
            _log.info("two-phase commit is not allowed: transactions have a timeout")
            worker.no_two_phase_commit.add(options.bootstrap)
            continue
        except NotAuthenticated:
            raise
        except CannotReach as unanswered:
            slots.abandon(ordinal)
            problem = unanswered
            time.sleep(pause_ms / 1000)
            pause_ms = min(OPEN_PAUSE_MS_MAX, pause_ms * 2)
            continue
        identity = WriterIdentity(producer_id, epoch, transactional=True)
        return Opened(
            name,
            SinkProducer(producer_id, epoch, abilities.end_version_max),
            None if two_phase else options.transaction_timeout_ms,
            RowsWriter(admin, options, identity, abilities, name),
        )
    raise CannotOpen(f"no transaction of sink {plan.sink_id!r} could be begun: {problem}")


def _init(admin: Admin, options: SinkOptions, name: str, two_phase: bool) -> tuple[int, int]:
    """Retry only after an answer: the coordinator moves, or is busy with the id."""
    deadline = time.monotonic() + OPEN_TIMEOUT_MS / 1000
    while True:
        try:
            given = init_producer_id(
                admin.routes,
                name,
                options.transaction_timeout_ms,
                enable_2pc=two_phase,
                retry_ms=0,
            )
        except KafkaError as answer:
            if not answer.retriable or time.monotonic() > deadline:
                raise
            time.sleep(OPEN_PAUSE_MS_MIN / 1000)
        else:
            return given.producer_id, given.epoch


def _check_driver(admin: Admin, plan: TaskPlan) -> None:
    """Check that the driver has not been replaced.

    A driver that gives a batch up takes over the driver's id first and then aborts the transactions
    that it lists. An earlier task is on the list; a later task sees here that the id was taken.
    """
    name, mine = driver_id(plan.sink_id), plan.carried.driver.producer
    try:
        found = admin.transactions.describe([name])[name]
    except CannotReach:
        return  # the next plan aborts it
    if isinstance(found, KafkaError):
        return
    if (found.producer_id, found.producer_epoch) != (mine.producer_id, mine.epoch):
        raise TaskFenced(
            f"another driver of sink {plan.sink_id!r} has taken over, or the batch was given up; "
            "what this task wrote is aborted"
        )


def _abort(admin: Admin, opened: Opened) -> None:
    """Abort early, for read_committed readers; if that fails the next plan aborts."""
    producer_id, epoch, version = opened.producer
    try:
        end_transaction(
            admin.routes,
            opened.transactional_id,
            producer_id,
            epoch,
            False,
            version,
            retry_ms=ABORT_RETRY_MS,
        )
    except (KafkaError, CannotReach) as problem:
        _log.info("%s was not aborted by its task: %s", opened.transactional_id, problem)
