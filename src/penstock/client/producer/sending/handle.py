"""librdkafka's producer with safe access.

A rejected certificate or password, a port with another protocol, or an address where no broker has
ever listened, does not heal soon. While the cluster answers no question, queued records fail with
that reason, before delivery.timeout.ms.

One thread polls at a time, and never from inside a callback: librdkafka's binding keeps one record
of the calling thread and would lose it. After `destroy` no call reaches librdkafka.
"""

import json
import logging
import math
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.client.failures import (
    AllBrokersDown,
    ClientError,
    HostNotResolved,
    TransportFailure,
    from_rdkafka,
    is_refusal,
)
from penstock.client.namespace import Namespace
from penstock.client.partitioners import LibraryPartitioner
from penstock.client.runtime.dedup_logger import DedupLogger
from penstock.client.runtime.forks import leave_alone
from penstock.client.runtime.protocol_probe import ProtocolProbe
from penstock.client.settings import ProducerSettings

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import Producer as RdkafkaProducer

log = logging.getLogger("penstock.client.producer")

# librdkafka's limits of message.max.bytes.
REQUEST_BYTES_FLOOR, REQUEST_BYTES_CEILING = 1_000, 1_000_000_000
# The longest wait for reports: the binding splits longer ones and returns late.
POLL_SLICE_S = 0.1
PURGE_SECONDS_MAX = 5.0
# The time limit of a question after a rejection, and the pause before the next.
ASK_SECONDS = 1.0
ASK_AGAIN_SECONDS = 0.5
# librdkafka's statistics show whether a broker has ever answered.
STATISTICS_MS = 1_000
STATISTICS_SECONDS_MAX = 2.0
CONNECTION_CODES = (AllBrokersDown.code, HostNotResolved.code, TransportFailure.code)


class RdkafkaProducerHandle:
    """One producer of librdkafka."""

    def __init__(
        self,
        settings: ProducerSettings,
        namespace: Namespace,
        partitioner: object,
        on_fatal: Callable[[Exception], None],
        on_refused: "Callable[[RdkafkaError | ClientError | None], None]",
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        dedup_logger = self.dedup_logger = DedupLogger(log)
        self._probe = ProtocolProbe(
            settings.rdkafka, log, dedup_logger, self._refused, self._found_nobody
        )
        # librdkafka's last error beside single records, for error texts.
        self.latest_error = ""
        self.polling = threading.Lock()
        self._asking = threading.Lock()
        self._waits_for = False
        self._over = threading.Event()
        self.destroyed = False
        self.in_transaction = False  # in librdkafka's view
        self._has_answered = False
        self._statistic_s = -math.inf
        wanted: dict[str, Any] = dict(settings.rdkafka)
        wanted.setdefault("error_cb", self._on_error)
        if not {"stats_cb", "statistics.interval.ms"} & wanted.keys():  # else the application's
            wanted |= {"stats_cb": self._count_answers, "statistics.interval.ms": STATISTICS_MS}
        if isinstance(partitioner, LibraryPartitioner):
            wanted["partitioner"] = partitioner.name
        if settings.transactional_id is not None:
            wanted["transactional.id"] = namespace.add(settings.transactional_id)
        wanted["message.max.bytes"] = min(
            max(settings.request_bytes_max, REQUEST_BYTES_FLOOR), REQUEST_BYTES_CEILING
        )
        self.linger_ms = float(wanted.get("linger.ms", 5))
        self._failed: type[KafkaException] = KafkaException
        self._on_fatal = on_fatal
        self._on_refused = on_refused
        try:
            made: RdkafkaProducer = Producer({"logger": dedup_logger, **wanted})
        except KafkaException as error:
            raise from_rdkafka(error, about="the producer cannot be made") from error
        self.rdkafka = made
        self.produce: Callable[..., None] = made.produce
        self.produce_batch: Callable[..., int] = made.produce_batch

    def poll(self) -> None:
        """Serve reports; do nothing if another thread polls."""
        if not self.polling.acquire(blocking=False):
            return
        try:
            self._serve(0.0, flushing=False)
        finally:
            self.polling.release()

    def wait(
        self,
        seconds: float,
        *,
        flushing: bool = False,
        unless: Callable[[], bool] = lambda: False,
    ) -> None:
        """Serve reports within a time; return early after some.

        Skip the wait if `unless` holds once this thread may poll. While flushing, records do not
        linger.
        """
        seconds = max(0.0, min(seconds, POLL_SLICE_S))
        if not self.polling.acquire(timeout=seconds):
            return
        try:
            if not unless():
                self._serve(seconds, flushing=flushing)
        finally:
            self.polling.release()

    def _serve(self, seconds: float, *, flushing: bool) -> None:
        if self.destroyed:
            return
        try:
            (self.rdkafka.flush if flushing else self.rdkafka.poll)(seconds)
        except self._failed as error:
            # Fatal errors are raised here once, and not reported to error_cb.
            self._on_fatal(from_rdkafka(error))
        except SystemError as error:
            # The binding loses the exception of a signal handler that runs during its call.
            raise KeyboardInterrupt from error
        except Exception:
            log.exception("a callback of the application (error_cb, stats_cb, ...) failed")

    def _on_error(self, error: "RdkafkaError") -> None:
        """Log librdkafka's error beside single records, in a poll."""
        if error.code() in CONNECTION_CODES:
            # librdkafka's log has the address, this report does not.
            self.latest_error = self.dedup_logger.unreachable or error.str()
            log.debug("%s", error.str())
        else:
            self.latest_error = error.str()
            level = logging.ERROR if error.fatal() else logging.WARNING
            self.dedup_logger.log(level, "%s", self.latest_error)
        if is_refusal(error):
            self._refused(error)
        else:
            self._probe.heard(error)

    # -- whether a broker has ever answered

    def _count_answers(self, statistic: str) -> None:
        """Note librdkafka's statistic, in a poll. The text grows with the topics, so parse it only
        until the first answer."""
        self._statistic_s = time.monotonic()
        if not self._has_answered:
            self._has_answered = json.loads(statistic)["rx"] > 0

    @property
    def has_answered(self) -> bool:
        """Return whether a broker has certainly answered."""
        return self._has_answered or self.dedup_logger.knows_nodes

    @property
    def has_never_answered(self) -> bool:
        """Return whether librdkafka's last statistic shows no answer of any broker."""
        return self._statistic_s > -math.inf and not self.has_answered

    @property
    def unreachable_sentence(self) -> str:
        """Return the sentence about an address where nothing listens; empty once a broker has
        answered."""
        return self.dedup_logger.unreachable if self.has_never_answered else ""

    def await_no_answer(self, seconds: float, *, unless: Callable[[], bool]) -> bool:
        """Return whether no broker has answered up to now; False if that is not certain.

        Serve reports until the next statistic, so records may be delivered meanwhile.
        """
        begun_s = time.monotonic()
        until = begun_s + min(seconds, STATISTICS_SECONDS_MAX)
        while self._statistic_s < begun_s:
            if self.has_answered or unless() or time.monotonic() >= until:
                return False
            # Without a record in librdkafka a flush returns at once.
            self.wait(POLL_SLICE_S, flushing=self.length > 0, unless=unless)
        return self.has_never_answered

    # -- connections that are refused

    def _found_nobody(self, error: AllBrokersDown) -> None:
        if not self.has_answered:
            self._refused(error)

    def _refused(self, error: "RdkafkaError | ClientError") -> None:
        """Handle a rejected connection, in a poll. The report is about one broker, so a thread asks
        the cluster before records fail. librdkafka repeats the report only after a while."""
        if not self._waits_for and not self.destroyed:
            self._waits_for = True
            threading.Thread(
                target=self._ask, args=(error,), name="penstock-producer-refused", daemon=True
            ).start()

    def _ask(self, error: "RdkafkaError | ClientError") -> None:
        """Ask until the cluster accepts a connection, or the producer ends."""
        while not self._over.is_set():
            with self._asking:
                if self.destroyed:
                    return
                try:
                    self.rdkafka.list_topics(timeout=ASK_SECONDS)
                except self._failed:
                    self._on_refused(error)
                    self.rdkafka.purge(in_queue=True, in_flight=False)
                else:
                    self._waits_for = False
                    self._on_refused(None)
                    return
            self._over.wait(ASK_AGAIN_SECONDS)

    def call(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Run a call of librdkafka that may serve reports; no other thread polls."""
        with self.polling:
            return call(*arguments)

    @property
    def length(self) -> int:
        """Return the number of records and delivery reports in librdkafka."""
        return 0 if self.destroyed else len(self.rdkafka)

    def purge(self) -> None:
        """Drop undelivered records; the next polls report them as failed."""
        if not self.destroyed:
            self.rdkafka.purge(in_queue=True, in_flight=True)

    def destroy(self) -> None:
        """Drop remaining records and free librdkafka. Blocks until its threads have ended."""
        self._over.set()
        self._probe.end()
        with self._asking, self.polling:
            if self.destroyed:
                return
            self.rdkafka.purge(in_queue=True, in_flight=True)
            until = time.monotonic() + PURGE_SECONDS_MAX
            while len(self.rdkafka) and time.monotonic() < until:
                self._serve(POLL_SLICE_S, flushing=True)
            self.destroyed = True
            # The binding's close() waits without limit for records and for the end of a
            # transaction. In these cases the last reference frees the memory instead.
            if not len(self.rdkafka) and not self.in_transaction:
                with warnings.catch_warnings():
                    # close() aborts once more, and warns.
                    warnings.simplefilter("ignore", RuntimeWarning)
                    self.rdkafka.close()

    def abandon(self) -> None:
        """Leave librdkafka alone in the child of a fork: its threads are in the parent."""
        self.destroyed = True
        leave_alone(self.rdkafka)
