"""The common inside of both producers: settings, encoder, delivery tracker, librdkafka's producer.

`hot_path_open` is the hot path's only check: bytes may go straight to librdkafka. A fork, a close,
a fatal error, a missing transaction or waiting records clear it, and the slow path finds the
reason.
"""

import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import NamedTuple

from penstock.client.failures import (
    AllBrokersDown,
    ClientClosed,
    ClientError,
    ProducerLost,
    PurgedInQueue,
    TimedOut,
    TransactionFailed,
    UsedAfterFork,
    WrongState,
    from_rdkafka,
    refusal_about,
)
from penstock.client.interceptors import ProducerInterceptor, interceptors_of
from penstock.client.keywords import refuse_unknown
from penstock.client.namespace import namespace_of
from penstock.client.partitioners import partitioner_of
from penstock.client.producer.delivery.delivery_errors import FailedRecord, RecordsUndelivered
from penstock.client.producer.delivery.delivery_tracker import DeliveryCallback, DeliveryTracker
from penstock.client.producer.options import KNOWN, ProducerArguments
from penstock.client.producer.sending.encoding import EncodedRecord, RecordEncoder
from penstock.client.producer.sending.handle import RdkafkaProducerHandle
from penstock.client.runtime.call_thread import CallThread
from penstock.client.runtime.forks import register
from penstock.client.runtime.interruption import INTERRUPTED_SECONDS_MAX
from penstock.client.runtime.protocol_probe import no_listener
from penstock.client.serde.protocols import unwaiting
from penstock.client.serde.serde_lookup import serializer_of
from penstock.client.settings import ProducerSettings, SettingValue, producer_settings

log = logging.getLogger("penstock.client.producer")

ONLY_ERRORS = "delivery.report.only.error"
# The default time of close() for records in flight.
CLOSE_SECONDS = 30.0
# The limits for reports of dropped records, and for the end of librdkafka's threads.
PURGE_SECONDS_MAX = 5.0
DESTROY_SECONDS_MAX = 10.0
# The margin beyond the limits of settings and calls.
MARGIN_SECONDS = 5.0
# The first time limit of a question about partitions; later ones are longer.
ASK_SECONDS_FIRST = 1.0


class ProducerPartition(NamedTuple):
    """One partition of a topic as the producer sees it; no leader is None."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class ProducerCore(ABC):
    """One producer without its face; `start` makes librdkafka's part."""

    # Whether an event loop encodes records, and must not wait for a registry.
    in_loop = False

    def __init__(self, given: Mapping[str, SettingValue] | None, said: ProducerArguments) -> None:
        refuse_unknown("Producer", said, KNOWN)
        settings = producer_settings(given or {}, bootstrap=said.get("bootstrap"))
        for name, why in settings.ignored:
            log.warning("%s has no effect: %s", name, why)
        self.settings: ProducerSettings = settings
        namespace, partitioner = said.get("namespace"), said.get("partitioner")
        key, value = said.get("key"), said.get("value")
        self.namespace = namespace_of(settings.namespace if namespace is None else namespace)
        self.interceptors = interceptors_of(
            (*settings.interceptors, *said.get("interceptors", ())), ProducerInterceptor
        )
        self.partitioner = partitioner_of(
            settings.partitioner if partitioner is None else partitioner,
            ignores_keys=settings.partitioner_ignores_keys,
        )
        write_key = serializer_of(
            settings.key_serializer if key is None else key,
            is_key=True,
            properties=settings.serde,
        )
        write_value = serializer_of(
            settings.value_serializer if value is None else value,
            is_key=False,
            properties=settings.serde,
        )
        self.encoder = RecordEncoder(
            unwaiting(write_key) if self.in_loop else write_key,
            unwaiting(write_value) if self.in_loop else write_value,
            self.partitioner,
            self.interceptors,
            self.namespace,
            settings.request_bytes_max,
        )
        self.names = self.encoder.names
        # librdkafka reports failures only: posts cost less, and deliveries are impossible.
        self.reports_errors_only = bool(settings.rdkafka.get(ONLY_ERRORS, False))
        self.tracker = DeliveryTracker(
            self.namespace, self.interceptors, quiet=self.reports_errors_only
        )
        self.transactional = settings.transactional_id is not None
        self.in_transaction = False
        self.closing = False
        self.is_forked = False
        self.hot_path_open = False
        # The end of the time of interrupted blocks; None without an interruption.
        self._interrupted_until: float | None = None
        self.thread = CallThread("penstock-producer")
        self._handle: RdkafkaProducerHandle | None = None

    # -- opening and closing

    def start(self) -> RdkafkaProducerHandle:
        """Return librdkafka's producer, made at the first call."""
        if self._handle is None:
            self.check_life()
            self._handle = RdkafkaProducerHandle(
                self.settings,
                self.namespace,
                self.partitioner,
                self.fail_permanently,
                self.tracker.set_refusal,
            )
            self.tracker.unreachable_sentence = lambda: self.handle.unreachable_sentence
            register(self)
            self.review()
        return self._handle

    @property
    def started(self) -> bool:
        return self._handle is not None

    @property
    def handle(self) -> RdkafkaProducerHandle:
        assert self._handle is not None, "the producer was started"
        return self._handle

    def forked(self) -> None:
        """Handle a fork, in the child."""
        self.is_forked = True
        self.review()
        if self._handle is not None:
            self._handle.abandon()

    def stop(self) -> None:
        """Reject records from now on."""
        self.closing = True
        self.review()

    def is_unreachable(self, timeout_s: float, *, interrupted: bool) -> bool:
        """Return whether a close waits in vain: no broker has ever answered, and nothing listens.
        For an interrupted program the missing answer is enough.

        Serves reports meanwhile and blocks for the network. In doubt the records stay: a cluster
        that has answered once may come back.
        """
        if not self.handle.await_no_answer(timeout_s, unless=lambda: not self.is_busy):
            return False
        if self.finds_no_listener():
            return True
        if interrupted:
            # Without an answer to ApiVersions librdkafka has sent no record.
            self.fail_permanently(AllBrokersDown(f"no broker at {self.address} has ever answered"))
        return interrupted

    def finds_no_listener(self) -> bool:
        """Return whether no broker is known to have answered and every bootstrap address refuses
        connections. Records given up from now on fail for that reason."""
        if self.handle.has_answered or self.fatal is not None:
            return False
        absent = no_listener(self.address)
        if absent is not None:
            self.fail_permanently(absent)
        return absent is not None

    def interrupt(self) -> float:
        """Note an interruption of the program. Return the seconds left for the ends of a
        transaction and of the producer together."""
        now = time.monotonic()
        if self._interrupted_until is None:
            self._interrupted_until = now + INTERRUPTED_SECONDS_MAX
        return max(0.0, self._interrupted_until - now)

    def forget_interruption(self) -> None:
        """Start without a limit: the program has caught an earlier interruption."""
        self._interrupted_until = None

    def within_interruption(self, seconds: float) -> float:
        """Return how much of a time is left after an interruption; all of it without one."""
        return seconds if self._interrupted_until is None else min(seconds, self.interrupt())

    @property
    def is_interrupted(self) -> bool:
        """Return whether the program was interrupted, and the time for its end is over."""
        return self._interrupted_until is not None and not self.interrupt()

    def log_interrupted_close(self) -> None:
        """Log the records that an interrupted close leaves behind."""
        if self.open_count:
            log.error(
                "the close was interrupted: %d records in flight to %s may be lost",
                self.open_count,
                self.address,
            )

    def end(self) -> "Future[None]":
        """Free librdkafka on the client's thread, which ends then."""
        destroyed = self.thread.submit(self.handle.destroy)
        self.thread.end()
        return destroyed

    def abandon(self, face: object, warn: Callable[..., None]) -> None:
        """End a producer that was never closed."""
        if self.started and not self.closing and not self.is_forked:
            text = f"a producer was never closed: {face!r}"
            warn(text, ResourceWarning, source=face, stacklevel=3)
            if not sys.is_finalizing():  # no thread can be started at the end of the program
                self.stop()
                self.end()

    # -- state

    @property
    def address(self) -> str:
        """Return the bootstrap addresses, for texts."""
        return str(self.settings.rdkafka.get("bootstrap.servers", ""))

    @property
    def fatal(self) -> Exception | None:
        """Return the error after which this producer cannot be used any more; None without one."""
        return self.tracker.fatal

    @fatal.setter
    def fatal(self, error: Exception) -> None:
        self.tracker.fatal = error

    def review(self) -> None:
        """Decide again whether the hot path is open."""
        self.hot_path_open = (
            self.encoder.plain
            and self._handle is not None
            and not self.closing
            and not self.is_forked
            and self.fatal is None
            and (self.in_transaction or not self.transactional)
            and self._has_room()
        )
        if not self.hot_path_open:
            self._close_hot_path()

    def _has_room(self) -> bool:
        """Return whether no record waits before the next one."""
        return True

    @abstractmethod
    def _close_hot_path(self) -> None:
        """Send every record on the slow path from now on."""

    @abstractmethod
    def drop_waiting(self, error: Exception) -> None:
        """Fail the records that librdkafka has not taken yet."""

    @abstractmethod
    def serve(self) -> None:
        """Poll once without waiting, and wake waiters."""

    def check_life(self) -> None:
        if self.is_forked:
            raise UsedAfterFork
        if self.closing:
            raise ClientClosed("the producer is closed")
        if self.fatal is not None:
            raise self.fatal

    def check(self) -> None:
        """Raise if no record may be sent now."""
        self.check_life()
        if self.transactional and not self.in_transaction:
            raise ClientError(
                f"the producer is transactional ({self.settings.transactional_id}) and no "
                "transaction is open",
                next_step="Send inside `async with producer.transaction():` (sync: `with`)",
            )

    def set_in_transaction(self, in_transaction: bool) -> None:
        self.in_transaction = in_transaction
        self.review()

    def check_reports(self) -> None:
        """Raise if librdkafka reports no deliveries."""
        if self.reports_errors_only:
            raise ClientError(
                f"with {ONLY_ERRORS}=true nobody says that a record was delivered",
                next_step="Use post() and flush(), or leave the setting out",
            )

    def fail_permanently(self, error: Exception) -> None:
        """End this producer with a fatal error."""
        if self.fatal is None:
            self.fatal = error
            self.review()

    def stuck_error(self, call_limit_s: float) -> Exception:
        """End this producer: librdkafka has not returned from a call."""
        error = ProducerLost(
            f"librdkafka has not come back for {call_limit_s:g} s and more: the producer is lost"
        )
        self.fail_permanently(error)
        return error

    # -- records

    def hand_over(self, encoded: EncodedRecord, report: DeliveryCallback) -> None:
        """Hand a record to librdkafka; raise BufferError without room, else our errors."""
        topic, value, key, partition, timestamp_ms, headers = encoded
        try:
            self.handle.produce(topic, value, key, partition, report, None, timestamp_ms, headers)
        except BufferError:
            raise
        except Exception as error:
            raise self.refused(error, topic) from error

    def refused(self, error: Exception, topic: str) -> Exception:
        """Return why librdkafka rejected a record; keep a fatal error."""
        if self.closing:
            return ClientClosed("the producer is closed")
        refusal = self.encoder.refused(error, self.namespace.strip(topic) or topic)
        if isinstance(refusal, WrongState) and self.in_transaction:
            return TransactionFailed(
                f"the transaction takes no more records, as something of it has failed{self._why}"
            )
        if getattr(refusal, "fatal", False):
            self.fail_permanently(refusal)
        return refusal

    @property
    def _why(self) -> str:
        failed = self.tracker.failed_posts
        return f": {failed[0].error}" if failed else ""

    @property
    def has_failures(self) -> bool:
        """Return whether failures have not been raised yet."""
        return bool(self.tracker.posts_failed or self.tracker.unawaited)

    @property
    def is_busy(self) -> bool:
        """Return whether records or a transaction are in flight."""
        return bool(self.in_transaction or self.handle.length or self.tracker.open_count)

    # -- times

    @property
    def block_s(self) -> float:
        """Return max.block.ms in seconds."""
        return self.settings.max_block_ms / 1000

    @property
    def settle_s(self) -> float:
        """Return the seconds after which every record is delivered or has failed."""
        return (
            self.settings.delivery_timeout_ms + self.settings.max_block_ms
        ) / 1000 + MARGIN_SECONDS

    # -- blocking questions

    def partitions_of(self, topic: str, timeout_s: float) -> list[ProducerPartition]:
        """Ask the cluster for partitions; blocks."""
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
                reason = self.tracker.refusal or error.args[0]
                # Asked again, so that a rejection is raised soon.
                if self.tracker.refusal is not None or left_s <= patience_s:
                    raise refusal_about(reason, f"the partitions of {topic}") from error
                if self.closing:
                    raise ClientClosed("the producer is closed") from error
                if self.handle.dedup_logger.knows_nodes:
                    patience_s *= 2
                self.handle.poll()  # with no record in flight no other thread may poll
        found = listed.topics[full]
        if found.error is not None:
            raise from_rdkafka(found.error, about=f"the partitions of {topic}")
        self.encoder.counts.learn(full, len(found.partitions))
        return [
            ProducerPartition(
                topic,
                each.id,
                None if each.leader < 0 else each.leader,
                tuple(each.replicas),
                tuple(each.isrs),
            )
            for _number, each in sorted(found.partitions.items())
        ]

    # -- what failed

    def undelivered(self, *, unawaited: bool) -> RecordsUndelivered | None:
        """Return the error of posts that failed since the last call, and of failed deliveries that
        were not awaited."""
        posts = self.tracker.take_failed_posts()
        failures = [*(posts.failures if posts else ())]
        failures += self.tracker.take_unawaited() if unawaited else ()
        many = (posts.count - len(posts.failures) if posts else 0) + len(failures)
        if not many:
            return None
        if self.fatal is None and any(isinstance(e.error, PurgedInQueue) for e in failures):
            self.handle.poll()  # the reason may be reported after the records
        return RecordsUndelivered([self._because(each) for each in failures], many)

    def check_settled(self, settled: bool, timeout_s: float) -> None:
        """Raise TimedOut unless all records are settled, else the failures of posts."""
        if not settled:
            trouble = self.handle.latest_error
            raise TimedOut(
                f"{self.open_count} records are still under way after {timeout_s:g} s"
                + (f"; the last trouble: {trouble}" if trouble else "")
            )
        undelivered = self.undelivered(unawaited=False)
        if undelivered is not None:
            raise undelivered

    @property
    @abstractmethod
    def open_count(self) -> int:
        """Return the number of records and batches in flight."""

    def _because(self, failed: FailedRecord) -> FailedRecord:
        """Give records that librdkafka dropped at the end the reason of the end."""
        if self.fatal is None or not isinstance(failed.error, PurgedInQueue):
            return failed
        return replace(failed, error=self.fatal)
