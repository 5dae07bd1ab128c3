"""What both producers are inside: settings, encoder, ledger, librdkafka; whether it may be used.

`fluent` is the one thing the hot path asks: bytes may go straight to librdkafka. Whatever forbids
that (a fork, a close, a fatal error, no open transaction, records that wait for room) clears it,
and the slow path finds out why.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.client.failures import (
    AllBrokersDown,
    ClientClosed,
    ClientError,
    ProducerLost,
    PurgedInQueue,
    TransactionFailed,
    UsedAfterFork,
    WrongState,
    from_rdkafka,
    refusal_about,
)
from penstock.client.forks import register
from penstock.client.interceptors import ProducerInterceptor, interceptors_of
from penstock.client.namespace import namespace_of
from penstock.client.partitioners import PartitionerLike, partitioner_of
from penstock.client.producer.encoding import Encoded, Encoder
from penstock.client.producer.handle import Handle
from penstock.client.producer.ledger import Ledger, Report
from penstock.client.producer.undelivered import FailedRecord, RecordsUndelivered
from penstock.client.serde import SerializerLike, serializer_of, unwaiting
from penstock.client.settings import ProducerSettings, SettingValue, producer_settings

log = logging.getLogger("penstock.client.producer")

ONLY_ERRORS = "delivery.report.only.error"
# How long close() waits for records under way, unless told.
CLOSE_SECONDS = 30.0
# How long librdkafka may take to report what it gave up, and to end its threads.
PURGE_SECONDS_MAX = 5.0
DESTROY_SECONDS_MAX = 10.0
# Beyond what the settings allow a record, or a call of librdkafka's is given: it takes a moment.
MARGIN_SECONDS = 5.0
# How long the cluster is asked for partitions at first; then for longer.
ASK_SECONDS_FIRST = 1.0


class Partition(NamedTuple):
    """One partition of a topic as the producer sees it; no leader is None."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Said(NamedTuple):
    """What a producer was told beside its settings."""

    bootstrap: str | None
    key: SerializerLike[Any] | None
    value: SerializerLike[Any] | None
    partitioner: PartitionerLike | None
    interceptors: Sequence[ProducerInterceptor]
    namespace: str | None


class Core:
    """Of one producer. librdkafka's half begins with `start`."""

    # Whether records are written in an event loop, which must not wait for a registry.
    in_loop = False

    def __init__(self, given: Mapping[str, SettingValue] | None, said: Said) -> None:
        settings = producer_settings(given or {}, bootstrap=said.bootstrap)
        for key, why in settings.ignored:
            log.warning("%s has no effect: %s", key, why)
        self.settings: ProducerSettings = settings
        self.namespace = namespace_of(
            settings.namespace if said.namespace is None else said.namespace
        )
        self.interceptors = interceptors_of(
            (*settings.interceptors, *said.interceptors), ProducerInterceptor
        )
        self.partitioner = partitioner_of(
            settings.partitioner if said.partitioner is None else said.partitioner,
            ignores_keys=settings.partitioner_ignores_keys,
        )
        write_key = serializer_of(
            settings.key_serializer if said.key is None else said.key,
            is_key=True,
            properties=settings.serde,
        )
        write_value = serializer_of(
            settings.value_serializer if said.value is None else said.value,
            is_key=False,
            properties=settings.serde,
        )
        self.encoder = Encoder(
            unwaiting(write_key) if self.in_loop else write_key,
            unwaiting(write_value) if self.in_loop else write_value,
            self.partitioner,
            self.interceptors,
            self.namespace,
            settings.request_bytes_max,
        )
        self.names = self.encoder.names
        # librdkafka then reports failures only: posts cost less, and nothing else can be done.
        self.quiet = bool(settings.rdkafka.get(ONLY_ERRORS, False))
        self.ledger = Ledger(self.namespace, self.interceptors, quiet=self.quiet)
        self.transactional = settings.transactional_id is not None
        self.in_transaction = False
        self.closing = False
        self.is_forked = False
        self.fluent = False
        self._handle: Handle | None = None

    # -- life

    def start(self) -> Handle:
        """librdkafka's producer; made when it is first needed."""
        if self._handle is None:
            self.check_life()
            self._handle = Handle(
                self.settings,
                self.namespace,
                self.partitioner,
                self.fail_for_good,
                self.ledger.let_in,
            )
            self.ledger.unreached = self._why_unreached
            register(self)
            self.review()
        return self._handle

    @property
    def started(self) -> bool:
        return self._handle is not None

    @property
    def handle(self) -> Handle:
        assert self._handle is not None, "the producer was started"
        return self._handle

    def forked(self) -> None:
        """This process is the child of a fork."""
        self.is_forked = True
        self.review()
        if self._handle is not None:
            self._handle.abandon()

    def stop(self) -> None:
        """No more records from now on."""
        self.closing = True
        self.review()

    def _why_unreached(self) -> str:
        return self.handle.unreached

    def is_unreachable(self, timeout_s: float) -> bool:
        """Return whether a close waits in vain: no broker has ever answered, and nothing listens.

        Serves reports meanwhile and blocks for the network. In doubt the records stay: a cluster
        that has answered once may come back.
        """
        never_answered = self.handle.await_no_answer(timeout_s, unless=lambda: not self.is_busy)
        return never_answered and self.finds_no_listener()

    def finds_no_listener(self) -> bool:
        """Return whether no broker is known to have answered and every bootstrap address refuses
        connections. Records given up from now on fail for that reason."""
        if self.handle.has_answered or self.fatal is not None:
            return False
        from penstock.client.cluster.nodes import parse_bootstrap
        from penstock.client.transport.diagnosis import nothing_listens

        try:
            told = nothing_listens(parse_bootstrap(str(self.settings.rdkafka["bootstrap.servers"])))
        except ValueError:
            return False  # librdkafka knows more ways to write addresses
        if told:
            self.fail_for_good(AllBrokersDown(told))
        return bool(told)

    # -- whether it may be used

    @property
    def fatal(self) -> Exception | None:
        """Why this producer is of no more use."""
        return self.ledger.fatal

    @fatal.setter
    def fatal(self, error: Exception) -> None:
        self.ledger.fatal = error

    def review(self) -> None:
        """See again whether the hot path is open."""
        self.fluent = (
            self.encoder.plain
            and self._handle is not None
            and not self.closing
            and not self.is_forked
            and self.fatal is None
            and (self.in_transaction or not self.transactional)
            and self._has_room()
        )
        if not self.fluent:
            self._close_hot_path()

    def _has_room(self) -> bool:
        """Whether no record waits before the next one."""
        return True

    def _close_hot_path(self) -> None:
        """Every record takes the slow way from now on."""

    def check_life(self) -> None:
        if self.is_forked:
            raise UsedAfterFork
        if self.closing:
            raise ClientClosed("the producer is closed")
        if self.fatal is not None:
            raise self.fatal

    def check(self) -> None:
        """Raises why no record may be sent now."""
        self.check_life()
        if self.transactional and not self.in_transaction:
            raise ClientError(
                f"the producer is transactional ({self.settings.transactional_id}) and no "
                "transaction is open",
                next_step="Send inside `async with producer.transaction():` (sync: `with`)",
            )

    def check_reports(self) -> None:
        """Raises if librdkafka will not say that a record was delivered."""
        if self.quiet:
            raise ClientError(
                f"with {ONLY_ERRORS}=true nobody says that a record was delivered",
                next_step="Use post() and flush(), or leave the setting out",
            )

    def fail_for_good(self, error: Exception) -> None:
        """librdkafka said that this producer is of no more use."""
        if self.fatal is None:
            self.fatal = error
            self.review()

    def given_up(self, call_limit_s: float) -> Exception:
        """librdkafka has not come back from a call: this producer is of no more use."""
        error = ProducerLost(
            f"librdkafka has not come back for {call_limit_s:g} s and more: the producer is lost"
        )
        self.fail_for_good(error)
        return error

    # -- records

    def hand_over(self, encoded: Encoded, report: Report) -> None:
        """To librdkafka; BufferError if there is no room, our own exceptions else."""
        topic, value, key, partition, timestamp_ms, headers = encoded
        try:
            self.handle.produce(topic, value, key, partition, report, None, timestamp_ms, headers)
        except BufferError:
            raise
        except Exception as error:
            raise self.refused(error, topic) from error

    def refused(self, error: Exception, topic: str) -> Exception:
        """Why librdkafka did not take a record; a fatal error is kept."""
        if self.closing:
            return ClientClosed("the producer is closed")
        refusal = self.encoder.refused(error, self.namespace.strip(topic) or topic)
        if isinstance(refusal, WrongState) and self.in_transaction:
            return TransactionFailed(
                f"the transaction takes no more records, as something of it has failed{self._why}"
            )
        if getattr(refusal, "fatal", False):
            self.fail_for_good(refusal)
        return refusal

    @property
    def _why(self) -> str:
        failed = self.ledger.failed_posts
        return f": {failed[0].error}" if failed else ""

    @property
    def has_failures(self) -> bool:
        """Whether something has failed that nobody has heard of."""
        return bool(self.ledger.posts_failed or self.ledger.unasked)

    @property
    def is_busy(self) -> bool:
        """Whether records or a transaction are under way."""
        return bool(self.in_transaction or self.handle.length or self.ledger.open_count)

    # -- times

    @property
    def block_s(self) -> float:
        """max.block.ms"""
        return self.settings.max_block_ms / 1000

    @property
    def settle_s(self) -> float:
        """By then every record is delivered or has failed, whatever happens."""
        return (
            self.settings.delivery_timeout_ms + self.settings.max_block_ms
        ) / 1000 + MARGIN_SECONDS

    # -- blocking questions

    def partitions_of(self, topic: str, timeout_s: float) -> list[Partition]:
        """Asks the cluster; blocks."""
        full = self.namespace.add_topic(topic)
        until, patience_s = time.monotonic() + timeout_s, ASK_SECONDS_FIRST
        while True:
            left_s = max(0.0, until - time.monotonic())
            try:
                listed = self.handle.rdkafka.list_topics(full, timeout=min(patience_s, left_s))
                break
            except Exception as error:
                if not error.args or not hasattr(error.args[0], "code"):
                    raise
                reason = self.ledger.refusal or error.args[0]
                # Asked again, so that whoever is not let in hears of it soon.
                if self.ledger.refusal is not None or left_s <= patience_s:
                    raise refusal_about(reason, f"the partitions of {topic}") from error
                if self.closing:
                    raise ClientClosed("the producer is closed") from error
                if self.handle.echo.knows_nodes:
                    patience_s *= 2
                self.handle.poll()  # nothing is under way yet, so perhaps nobody else does
        found = listed.topics[full]
        if found.error is not None:
            raise from_rdkafka(found.error, about=f"the partitions of {topic}")
        self.encoder.counts.learn(full, len(found.partitions))
        return [
            Partition(
                topic,
                each.id,
                None if each.leader < 0 else each.leader,
                tuple(each.replicas),
                tuple(each.isrs),
            )
            for _number, each in sorted(found.partitions.items())
        ]

    # -- what failed

    def undelivered(self, *, unasked: bool) -> RecordsUndelivered | None:
        """Posts that failed since somebody asked; at the end also deliveries nobody awaited."""
        posts = self.ledger.take_failed_posts()
        failures = [*(posts.failures if posts else ()), *self._unasked(unasked)]
        many = (posts.count - len(posts.failures) if posts else 0) + len(failures)
        if not many:
            return None
        if self.fatal is None and any(isinstance(e.error, PurgedInQueue) for e in failures):
            self.handle.poll()  # why it gave them up may be told after them
        return RecordsUndelivered([self._because(each) for each in failures], many)

    def _unasked(self, wanted: bool) -> list[FailedRecord]:
        return self.ledger.take_unasked() if wanted else []

    def _because(self, failed: FailedRecord) -> FailedRecord:
        """What librdkafka gave up as this producer ended failed for that reason."""
        if self.fatal is None or not isinstance(failed.error, PurgedInQueue):
            return failed
        return replace(failed, error=self.fatal)
