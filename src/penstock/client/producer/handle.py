"""librdkafka's producer, held so that it cannot be misused.

A certificate or a password that is refused, or a port that speaks something else, does not go away
by itself: while that is so and the cluster cannot be asked anything, what is queued is given up and
told why, and not first when delivery.timeout.ms is over.

Only one thread polls at a time, and never from inside a callback: librdkafka's binding keeps one
record of the calling thread and would lose it. After `destroy` nothing reaches librdkafka.
"""

import json
import logging
import math
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.client.doubts import Doubts
from penstock.client.echo import Echo
from penstock.client.failures import (
    AllBrokersDown,
    ClientError,
    HostNotResolved,
    TransportFailure,
    from_rdkafka,
    is_refusal,
)
from penstock.client.forks import leave_alone
from penstock.client.interrupts import raise_if_interrupted
from penstock.client.namespace import Namespace
from penstock.client.partitioners import LibraryPartitioner
from penstock.client.settings import ProducerSettings

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import Producer as RdkafkaProducer

log = logging.getLogger("penstock.client.producer")

# librdkafka takes no smaller message.max.bytes, and no larger one.
REQUEST_BYTES_FLOOR, REQUEST_BYTES_CEILING = 1_000, 1_000_000_000
# A wait for reports comes back this often: the binding splits longer ones and answers late.
POLL_SLICE_S = 0.1
PURGE_SECONDS_MAX = 5.0
# How long the cluster is asked once a connection was refused, and how soon again.
ASK_SECONDS = 1.0
ASK_AGAIN_SECONDS = 0.5
# librdkafka's statistics tell for certain whether a broker has ever answered.
STATISTICS_MS = 1_000
STATISTICS_SECONDS_MAX = 2.0
CONNECTION_CODES = (AllBrokersDown.code, HostNotResolved.code, TransportFailure.code)


class Troubles:
    """What librdkafka reports beside single records: logged, and kept for error texts."""

    def __init__(
        self, echo: Echo, doubts: Doubts, on_refused: "Callable[[RdkafkaError], None]"
    ) -> None:
        self.latest = ""
        self._echo = echo
        self._doubts = doubts
        self._on_refused = on_refused

    def __call__(self, error: "RdkafkaError") -> None:
        if error.code() in CONNECTION_CODES:
            # librdkafka's log names the address, and this report does not.
            self.latest = self._echo.unreachable or error.str()
            log.debug("%s", error.str())
        else:
            self.latest = error.str()
            level = logging.ERROR if error.fatal() else logging.WARNING
            self._echo.log(level, "%s", self.latest)
        if is_refusal(error):
            self._on_refused(error)
        else:
            self._doubts.heard(error)


class Handle:
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

        echo = self.echo = Echo(log)
        self._doubts = Doubts(settings.rdkafka, log, echo, self._refused)
        self.troubles = Troubles(echo, self._doubts, self._refused)
        self.polling = threading.Lock()
        self._asking = threading.Lock()
        self._asks = False
        self._over = threading.Event()
        self.destroyed = False
        self.in_transaction = False  # as far as librdkafka knows
        self._has_answered = False
        self._statistic_s = -math.inf
        wanted: dict[str, Any] = dict(settings.rdkafka)
        wanted.setdefault("error_cb", self.troubles)
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
            made: RdkafkaProducer = Producer({"logger": echo, **wanted})
        except KafkaException as error:
            raise from_rdkafka(error, about="the producer cannot be made") from error
        self.rdkafka = made
        self.produce: Callable[..., None] = made.produce
        self.produce_batch: Callable[..., int] = made.produce_batch

    def poll(self) -> None:
        """Serve what has been reported; nothing, if another poll is under way."""
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
        """Serve what is reported within a time; comes back early when something was.

        Nothing is waited for if, once nobody else polls, `unless` says so. While flushing, records
        do not linger.
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
            # Fatal errors are raised here, once, instead of going to error_cb.
            self._on_fatal(from_rdkafka(error))
        except Exception as error:
            raise_if_interrupted(error)
            log.exception("a function that librdkafka was given (error_cb, stats_cb, ...) failed")

    # -- whether a broker has ever answered

    def _count_answers(self, statistic: str) -> None:
        """Note librdkafka's statistic, in a poll. It grows with the topics, so read no more of them
        than needed."""
        self._statistic_s = time.monotonic()
        if not self._has_answered:
            self._has_answered = json.loads(statistic)["rx"] > 0

    @property
    def has_answered(self) -> bool:
        """Whether a broker has answered for certain."""
        return self._has_answered or self.echo.knows_nodes

    @property
    def has_never_answered(self) -> bool:
        """Whether librdkafka's last statistic knows of no answer of any broker."""
        return self._statistic_s > -math.inf and not self.has_answered

    @property
    def unreached(self) -> str:
        """The sentence about an address where nothing listens; empty once a broker has answered."""
        return self.echo.unreachable if self.has_never_answered else ""

    def await_no_answer(self, seconds: float, *, unless: Callable[[], bool]) -> bool:
        """Return whether no broker has answered up to now; False if that is not certain.

        Serve reports until the next statistic, so records may be delivered meanwhile.
        """
        begun_s = time.monotonic()
        until = begun_s + min(seconds, STATISTICS_SECONDS_MAX)
        while self._statistic_s < begun_s:
            if self.has_answered or unless() or time.monotonic() >= until:
                return False
            self.wait(POLL_SLICE_S, flushing=True, unless=unless)
        return self.has_never_answered

    # -- connections that are refused

    def _refused(self, error: "RdkafkaError | ClientError") -> None:
        """librdkafka's report, in a poll; of one broker, so the cluster is asked before anything
        is given up. It reports the same again only after a while: hence the thread."""
        if not self._asks and not self.destroyed:
            self._asks = True
            threading.Thread(
                target=self._ask, args=(error,), name="penstock-producer-refused", daemon=True
            ).start()

    def _ask(self, error: "RdkafkaError | ClientError") -> None:
        """Until somebody is let in, or it is over."""
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
                    self._asks = False
                    self._on_refused(None)
                    return
            self._over.wait(ASK_AGAIN_SECONDS)

    def call(self, call: Callable[..., Any], *arguments: object) -> Any:
        """A call of librdkafka that may serve reports while it blocks: others do not meanwhile."""
        with self.polling:
            return call(*arguments)

    @property
    def length(self) -> int:
        """Records and reports that librdkafka holds."""
        return 0 if self.destroyed else len(self.rdkafka)

    def purge(self) -> None:
        """Give up what is not delivered: it is reported as failed by the next polls."""
        if not self.destroyed:
            self.rdkafka.purge(in_queue=True, in_flight=True)

    def destroy(self) -> None:
        """Give up what is left, and free librdkafka. Blocks until its threads have ended."""
        self._over.set()
        self._doubts.end()
        with self._asking, self.polling:
            if self.destroyed:
                return
            self.rdkafka.purge(in_queue=True, in_flight=True)
            until = time.monotonic() + PURGE_SECONDS_MAX
            while len(self.rdkafka) and time.monotonic() < until:
                self._serve(POLL_SLICE_S, flushing=True)
            self.destroyed = True
            # Its own close would wait for ever for records, and for the end of a transaction that
            # the broker does not answer about: then its memory is freed when nobody refers to it.
            if not len(self.rdkafka) and not self.in_transaction:
                with warnings.catch_warnings():
                    # It tries to abort once more what we have tried, and warns of that.
                    warnings.simplefilter("ignore", RuntimeWarning)
                    self.rdkafka.close()

    def abandon(self) -> None:
        """In the child of a fork: the parent's threads are not here, so hands off for good."""
        self.destroyed = True
        leave_alone(self.rdkafka)
