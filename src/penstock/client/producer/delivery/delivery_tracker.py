"""Tracking of sent and reported records, in windows between flushes.

A flush begins a new window and ends when all earlier windows are settled. librdkafka calls once per
record, on the hot path, on the one thread that polls. Senders count sent records, reports count
settled ones, and neither writes the other's number: no lock is needed.

librdkafka must not be polled from inside a report. So reports only note; waiters and interceptors
are notified after the poll.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from penstock.client.failures import (
    ClientError,
    MessageTimedOut,
    PurgedInQueue,
    from_rdkafka,
    refusal_about,
)
from penstock.client.interceptors import ProducerInterceptor, acknowledge
from penstock.client.namespace import Namespace
from penstock.client.producer.delivery.delivery_errors import FailedRecord, RecordsUndelivered
from penstock.client.records import Delivered

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import Message

# The number of unraised failures that are kept; further ones are only counted.
FAILURES_KEPT_MAX = 1_000
NO_OFFSET = -1


class Wakeable(Protocol):
    """A waiter for a report."""

    def wake(self) -> None: ...


class DeliveryCallback(Protocol):
    """librdkafka's callback for a delivered or failed record."""

    def __call__(self, error: Any, message: Any, /) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchDelivered:
    """A delivered batch: its topic and number of records."""

    topic: str
    count: int


class DeliveryTracker:
    """The windows and failures of one producer."""

    window: "FlushWindow"
    posted: "DeliveryCallback"  # for records without a result, in this window

    def __init__(
        self,
        namespace: Namespace,
        interceptors: Sequence[ProducerInterceptor] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self.namespace = namespace
        # Only failures are reported, so windows do not know what is settled.
        self.reports_errors_only = quiet
        self.interceptors = interceptors
        self.home: Any = None  # the event loop or the blocking producer that waits for reports
        self.windows: list[FlushWindow] = []
        self._begin()
        # Noted by reports, processed after the poll.
        self.woken: deque[Wakeable] = deque()
        self.acknowledged: deque[tuple[Any, Message | None]] = deque()
        self.batches: list[BatchReport] = []
        # Failed posts: the first ones, and the number of all.
        self.failed_posts: list[FailedRecord] = []
        self.posts_failed = 0
        # Futures of waiters, which end with the producer.
        self.waiting: WeakSet[Any] = WeakSet()
        # The reason why this producer cannot be used any more.
        self.fatal: Exception | None = None
        # Why the cluster rejects this producer; None if it does not, or before the first answer.
        self.refusal: RdkafkaError | ClientError | None = None
        # The sentence about a cluster that has never answered; empty after an answer.
        self.unreachable_sentence: Callable[[], str] = str
        # The newest failed deliveries that were not awaited.
        self.unawaited: dict[int, UnawaitedFailure] = {}

    # -- windows

    def begin_window(self) -> "FlushWindow":
        """Begin a new window. Return the last one with records."""
        ended = self.window
        if ended.sent:
            self._begin()
        elif len(self.windows) > 1:
            ended = self.windows[-2]
        return ended

    def _begin(self) -> None:
        self.window = FlushWindow(self)
        self.windows.append(self.window)
        self.posted = self.watched(
            self.note_post if self.reports_errors_only else self.window.posted
        )

    def watched(self, report: "DeliveryCallback") -> "DeliveryCallback":
        """Return the callback, with a note for interceptors if there are some."""
        if not self.interceptors:
            return report

        def report_and_note(error: Any, message: Any) -> None:
            report(error, message)
            self.acknowledged.append((error, message))

        return report_and_note

    def settled_to(self, window: "FlushWindow") -> bool:
        """Return whether this window and those before are settled."""
        windows = self.windows
        while len(windows) > 1 and windows[0].sent == windows[0].settled:
            windows.pop(0)
        if window not in windows:
            return True
        return windows[0] is window and window.sent == window.settled

    def settle_lost(self) -> int:
        """Settle all records; return the number of lost reports. Only for a librdkafka without
        records and reports, while no thread polls or sends, and no batch has a waiting caller."""
        lost = 0
        for batch in list(self.batches):
            self.batches.remove(batch)
            batch.tell()
            batch.window.settled += 1
            lost += batch.missing
        for window in self.windows:
            lost += max(0, window.sent - window.settled)
            window.settled = window.sent
        return lost

    @property
    def open_count(self) -> int:
        """Return the number of records and batches that are not settled."""
        return sum(window.sent - window.settled for window in self.windows)

    # -- after a poll

    def wake(self) -> None:
        """Wake waiters whose reports came, and notify interceptors."""
        # Single atomic steps: another report may be noted meanwhile.
        while self.woken:
            self.woken.popleft().wake()
        if self.batches:
            self._settle_batches()
        while self.acknowledged:
            self._acknowledge(*self.acknowledged.popleft())

    def _settle_batches(self) -> None:
        for batch in [each for each in self.batches if each.complete]:
            # Of two threads here one settles the batch.
            try:
                self.batches.remove(batch)
            except ValueError:
                continue
            if batch.left:
                batch.tell()
            batch.window.settled += 1
            batch.wake()

    def _acknowledge(self, error: Any, message: "Message | None") -> None:
        if error is not None:
            acknowledge(self.interceptors, None, self.failure(error, message))
        elif message is not None:
            acknowledge(self.interceptors, self.delivered(message), None)

    # -- translation of librdkafka's errors

    def topic_of(self, message: "Message | None") -> str:
        name = "" if message is None else message.topic() or ""
        return self.namespace.strip(name) or name

    def delivered(self, message: "Message") -> Delivered:
        kind, stamp = message.timestamp()
        offset = message.offset()
        partition = message.partition()
        return Delivered(
            self.topic_of(message),
            NO_OFFSET if partition is None else partition,
            NO_OFFSET if offset is None or offset < 0 else offset,
            stamp if kind and stamp >= 0 else None,
        )

    def set_refusal(self, refusal: "RdkafkaError | ClientError | None") -> None:
        """Record why the cluster rejects this producer, or None."""
        self.refusal = refusal

    def failure(self, error: "RdkafkaError | Exception", message: "Message | None") -> Exception:
        if isinstance(error, Exception):
            return error
        topic = self.topic_of(message)
        about = f"a record for {topic}" if topic else "a record"
        if error.code() == PurgedInQueue.code:  # dropped for a reason
            if self.fatal is not None:
                return self.fatal
            if self.refusal is not None:
                return refusal_about(self.refusal, about)
        if error.code() == MessageTimedOut.code and not error.fatal():
            why, _, step = self.unreachable_sentence().partition(". ")
            if why:
                return MessageTimedOut(f"{about} could never be sent: {why}", next_step=step)
        return from_rdkafka(error, about=about)

    # -- failures that are not raised yet

    def note_post(self, error: "RdkafkaError | Exception", message: "Message | None") -> None:
        """Note a post that librdkafka reported as failed."""
        key = None if message is None else message.key()
        value = None if message is None else message.value()
        failure = self.failure(error, message)
        self.keep_post(FailedRecord(self.topic_of(message), key, value, failure))

    def keep_post(self, failed: FailedRecord) -> None:
        self.posts_failed += 1
        if len(self.failed_posts) < FAILURES_KEPT_MAX:
            self.failed_posts.append(failed)

    def take_failed_posts(self) -> RecordsUndelivered | None:
        """Return the error of all posts that failed since the last call."""
        if not self.posts_failed:
            return None
        raised = RecordsUndelivered(self.failed_posts, self.posts_failed)
        self.failed_posts, self.posts_failed = [], 0
        return raised

    def keep_unawaited(self, failed: "UnawaitedFailure") -> None:
        self.unawaited[id(failed)] = failed
        if len(self.unawaited) > FAILURES_KEPT_MAX:
            del self.unawaited[next(iter(self.unawaited))]

    def take_unawaited(self) -> list[FailedRecord]:
        """Return failed deliveries that were never awaited."""
        taken, self.unawaited = self.unawaited, {}
        return [each.failed_record() for each in taken.values()]


class UnawaitedFailure(Protocol):
    def failed_record(self) -> FailedRecord: ...


class FlushWindow:
    """Records sent between two flushes."""

    __slots__ = ("sent", "settled", "tracker")

    def __init__(self, tracker: DeliveryTracker) -> None:
        self.tracker = tracker
        self.sent = 0
        self.settled = 0

    def posted(self, error: Any, message: Any) -> None:
        """Handle the report of a record without a result."""
        self.settled += 1
        if error is not None:
            self.tracker.note_post(error, message)


class BatchReport:
    """The reports of one batch. The batch counts as one record of its window, and is settled after
    a poll.

    `report` is librdkafka's callback: a closure, because an attribute access per record costs more
    than the rest.
    """

    __slots__ = ("_reported", "expected", "failed", "left", "report", "wake", "window")

    def __init__(self, window: FlushWindow, expected: int, wake: Callable[[], None]) -> None:
        self.window = window
        self.expected = expected
        self.wake = wake
        self.failed: list[tuple[Any, Any]] = []
        # The caller has left: failures are raised like those of posts.
        self.left = False
        report, self._reported = _batch_report(self.failed)
        self.report = window.tracker.watched(report)
        window.sent += 1
        window.tracker.batches.append(self)

    @property
    def complete(self) -> bool:
        return self._reported() >= self.expected

    @property
    def missing(self) -> int:
        """Return the number of reports to come."""
        return max(0, self.expected - self._reported())

    def leave(self) -> None:
        """Stop waiting; flush() and close() raise the failures."""
        self.left = True
        if self not in self.window.tracker.batches:  # settled a moment ago
            self.tell()

    def tell(self) -> None:
        """Note the failures; of two threads here each failure is noted by one."""
        while self.failed:
            try:
                error, message = self.failed.pop()
            except IndexError:
                return
            self.window.tracker.note_post(error, message)


def _batch_report(
    failed: list[tuple[Any, Any]],
) -> tuple[DeliveryCallback, Callable[[], int]]:
    """Return librdkafka's callback for the records of a batch, and a function that counts its
    calls."""
    count = 0

    def report(error: Any, message: Any) -> None:
        nonlocal count
        count += 1
        if error is not None:
            failed.append((error, message))

    def reported() -> int:
        return count

    return report, reported
