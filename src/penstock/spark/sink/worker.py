"""A task's side of the sink for real: a transaction of its own worker process, or none.

The worker's name is random and made after the process was forked, so that no other process, on
this machine or another, ever uses its transactional ids.
"""

import functools
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.bulk.encode import Encoded, Encoder, Identity
from penstock.client.admin.blocking import Admin
from penstock.client.cluster.topics import ask_topics
from penstock.client.raw.outcomes import TopicMissing
from penstock.client.raw.transacting import (
    TransactionAbilities,
    abilities_of,
    add_partitions,
    end_transaction,
    init_producer_id,
)
from penstock.client.raw.writing import BatchWriter
from penstock.client.transport.connection import CannotReach, NotAuthenticated
from penstock.client.values import TopicDescription
from penstock.errors import (
    KafkaError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.model import TopicPartition
from penstock.spark.here import now_ms
from penstock.spark.sink.decisions import BatchName, Producer
from penstock.spark.sink.digest import digest_of
from penstock.spark.sink.identity import WORKER_TOKEN_BYTES, driver_id, worker_id
from penstock.spark.sink.patience import patiently
from penstock.spark.sink.rows import Part, parts_of
from penstock.spark.sink.settings import SinkOptions
from penstock.spark.sink.task import Plan, Slots, TaskPart, TaskReport

# How often a task may begin with another transactional id, and how long it insists on one.
OPEN_ATTEMPTS_MAX = 20
OPEN_TIMEOUT_MS = 60_000
OPEN_PAUSE_MS_MIN = 20
OPEN_PAUSE_MS_MAX = 1_000
ABORT_RETRY_MS = 5_000
# How long a task waits for a topic that the broker may be creating.
CREATE_TIMEOUT_MS = 5_000
CREATE_PAUSE_MS_MIN = 10
CREATE_PAUSE_MS_MAX = 250

_log = logging.getLogger(__name__)


@dataclass
class WorkerProcess:
    """What lives as long as the process: its name, and which of its ids are free."""

    token: str
    slots: dict[tuple[str, str], Slots] = field(default_factory=dict)
    no_two_phase_commit: set[str] = field(default_factory=set)


@functools.cache
def _worker(process_id: int) -> WorkerProcess:
    """A forked process asks with another number, and gets a name of its own."""
    del process_id
    return WorkerProcess(secrets.token_hex(WORKER_TOKEN_BYTES))


class CannotOpen(Exception):
    """No transaction could be begun."""


class DriverReplaced(Exception):
    """The batch was given up, or another driver has taken over: nobody will commit this task."""


class RowsWriter:
    """Encodes rows and sends them to their partitions, as one producer."""

    def __init__(
        self,
        admin: Admin,
        options: SinkOptions,
        identity: Identity,
        abilities: TransactionAbilities,
        transactional_id: str | None = None,
    ) -> None:
        self._admin = admin
        self._options = options
        self._identity = identity
        self._transactional_id = transactional_id
        self._must_add = transactional_id is not None and abilities.must_add_partitions
        self._added: dict[TopicPartition, None] = {}
        self._encoders: dict[str, Encoder] = {}
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
        """Everything is acknowledged: how many rows, and where."""
        for topic, encoder in self._encoders.items():
            self._send(topic, encoder.flush())
        self._writer.flush()
        return {place: each.records for place, each in self._writer.acknowledged.items()}

    def _send(self, topic: str, encoded: Iterable[Encoded]) -> None:
        ready = [(TopicPartition(topic, each.partition), each) for each in encoded]
        if self._must_add:
            self._add(place for place, _ in ready)
        for place, each in ready:
            self._writer.send(place, each.batch, each.records)

    def _add(self, places: Iterable[TopicPartition]) -> None:
        """With transactions v1 a partition joins before it is written to."""
        fresh = [each for each in dict.fromkeys(places) if each not in self._added]
        if fresh:
            assert self._transactional_id is not None
            producer = self._identity.producer_id, self._identity.epoch
            add_partitions(self._admin.routes, self._transactional_id, producer, fresh)
            self._added.update(dict.fromkeys(fresh))

    def _encoder(self, topic: str) -> Encoder:
        found = self._described(topic)
        options = self._options
        encoder = self._encoders[topic] = Encoder(
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
        """Return the topic. A missing one is the broker's to create, as for Kafka's producers."""
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
    producer: Producer
    timeout_ms: int | None
    writer: RowsWriter


def write_at_least_once(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> int:
    """Idempotent, without a transaction: a batch that is repeated is there twice."""
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
    options: SinkOptions, plan: Plan, batch: BatchName, batches: Iterable[pa.RecordBatch]
) -> TaskReport:
    """All rows of a task, acknowledged, in a transaction that stays open for the driver to end.
    What was decided before is only counted."""
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
    identity = Identity(given.producer_id, given.epoch, transactional=False)
    return RowsWriter(admin, options, identity, _abilities(admin, options))


def _abilities(admin: Admin, options: SinkOptions) -> TransactionAbilities:
    return patiently(lambda: abilities_of(admin.nodes.any()), options.request_timeout_ms)


def _open(admin: Admin, options: SinkOptions, plan: Plan) -> Opened:
    """Begin under an id that nobody else may abort. One whose InitProducerId was sent and not
    answered is given up: it could still arrive and abort what was written under it."""
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
        identity = Identity(producer_id, epoch, transactional=True)
        return Opened(
            name,
            Producer(producer_id, epoch, abilities.end_version_max),
            None if two_phase else options.transaction_timeout_ms,
            RowsWriter(admin, options, identity, abilities, name),
        )
    raise CannotOpen(f"no transaction of sink {plan.sink_id!r} could be begun: {problem}")


def _init(admin: Admin, options: SinkOptions, name: str, two_phase: bool) -> tuple[int, int]:
    """Asked again only after an answer: that the coordinator moves, or is busy with the id."""
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


def _check_driver(admin: Admin, plan: Plan) -> None:
    """Whoever gives a batch up takes the driver's id over first and then aborts what it sees. A
    task that began before is seen; one that began later sees here that the id was taken."""
    name, mine = driver_id(plan.sink_id), plan.carried.driver.producer
    try:
        found = admin.transactions.describe([name])[name]
    except CannotReach:
        return  # then the next plan does it
    if isinstance(found, KafkaError):
        return
    if (found.producer_id, found.producer_epoch) != (mine.producer_id, mine.epoch):
        raise DriverReplaced(
            f"another driver of sink {plan.sink_id!r} has taken over, or the batch was given up; "
            "what this task wrote is aborted"
        )


def _abort(admin: Admin, opened: Opened) -> None:
    """As soon as possible, for the readers' sake; if it fails the next plan does it."""
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
