"""What was sent and what has been reported back, page by page.

A flush turns the page: it is over when every page up to then is settled, whatever is sent
meanwhile. Reports come from librdkafka, one call per record, on the hot path and always from
one thread at a time (whoever polls holds the lock); senders count what they sent, reports count
what is settled, and neither writes the other's number. So nothing here needs a lock of its own.

librdkafka must not be polled from inside a report: reports only note, and what follows from them
(waking, telling interceptors) is done when the poll is over.
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
from penstock.client.producer.undelivered import FailedRecord, RecordsUndelivered
from penstock.client.records import Delivered

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as RdkafkaError
    from confluent_kafka import Message

# Of records that failed and nobody has asked for yet: so many are kept, the others are counted.
FAILURES_KEPT_MAX = 1_000
NO_OFFSET = -1


class Woken(Protocol):
    """Somebody waits for this report."""

    def wake(self) -> None: ...


class Report(Protocol):
    """What librdkafka calls when a record is delivered or given up."""

    def __call__(self, error: Any, message: Any, /) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchDelivered:
    """All records of a batch are written: to which topic, and how many."""

    topic: str
    count: int


class Ledger:
    """All pages of one producer."""

    page: "Page"
    posted: "Report"  # of records without a result, on this page

    __slots__ = (
        "acknowledged",
        "batches",
        "failed_posts",
        "fatal",
        "home",
        "interceptors",
        "namespace",
        "page",
        "pages",
        "posted",
        "posts_failed",
        "quiet",
        "refusal",
        "unasked",
        "unreached",
        "waiting",
        "watched",
        "woken",
    )

    def __init__(
        self,
        namespace: Namespace,
        interceptors: Sequence[ProducerInterceptor] = (),
        *,
        quiet: bool = False,
    ) -> None:
        self.namespace = namespace
        # Only failures are reported, so pages cannot tell what is settled.
        self.quiet = quiet
        self.interceptors = interceptors
        self.watched = bool(interceptors)
        self.home: Any = None  # who waits for reports: an event loop, or a blocking producer
        self.pages: list[Page] = []
        self._begin()
        # Noted by reports, worked off after the poll.
        self.woken: deque[Woken] = deque()
        self.acknowledged: deque[tuple[Any, Message | None]] = deque()
        self.batches: list[BatchReport] = []
        # Of posts that failed: the first ones, and the number of all.
        self.failed_posts: list[FailedRecord] = []
        self.posts_failed = 0
        # Futures of those who wait: so that the end of the producer is the end of their waiting.
        self.waiting: WeakSet[Any] = WeakSet()
        # Why this producer is of no more use.
        self.fatal: Exception | None = None
        # Why the cluster lets nobody in; None while it does, or nobody knows.
        self.refusal: RdkafkaError | ClientError | None = None
        # The sentence about a cluster that has never answered; empty once a broker has.
        self.unreached: Callable[[], str] = str
        # Deliveries that failed and were not awaited: the newest ones.
        self.unasked: dict[int, UnaskedFailure] = {}

    # -- pages

    def turn(self) -> "Page":
        """Begin a new page; the last one that anything was sent on is returned."""
        ended = self.page
        if ended.sent:
            self._begin()
        elif len(self.pages) > 1:
            ended = self.pages[-2]
        return ended

    def _begin(self) -> None:
        self.page = Page(self)
        self.pages.append(self.page)
        if self.quiet:
            self.posted = self._failed_and_watched if self.watched else self.note_post
        else:
            self.posted = self.page.posted_and_watched if self.watched else self.page.posted

    def settled_to(self, page: "Page") -> bool:
        """Whether everything on this page and those before it is settled."""
        pages = self.pages
        while len(pages) > 1 and pages[0].sent == pages[0].settled:
            pages.pop(0)
        if page not in pages:
            return True
        return pages[0] is page and page.sent == page.settled

    @property
    def open_count(self) -> int:
        """Records (and batches) that are not settled yet."""
        return sum(page.sent - page.settled for page in self.pages)

    # -- after a poll

    def wake(self) -> None:
        """Wake those whose reports came, and tell the interceptors."""
        # Single steps that nothing can come between: a report may be noted meanwhile.
        while self.woken:
            self.woken.popleft().wake()
        if self.batches:
            self._settle_batches()
        while self.acknowledged:
            self._acknowledge(*self.acknowledged.popleft())

    def _settle_batches(self) -> None:
        for batch in [each for each in self.batches if each.complete]:
            # Of two threads that come here one settles it.
            try:
                self.batches.remove(batch)
            except ValueError:
                continue
            if batch.left:
                batch.tell()
            batch.page.settled += 1
            batch.waiter.wake()

    def _acknowledge(self, error: Any, message: "Message | None") -> None:
        if error is not None:
            acknowledge(self.interceptors, None, self.failure(error, message))
        elif message is not None:
            acknowledge(self.interceptors, self.delivered(message), None)

    # -- from librdkafka's words to ours

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

    def let_in(self, refusal: "RdkafkaError | ClientError | None") -> None:
        """Whether the cluster lets this producer in, and why not."""
        self.refusal = refusal

    def failure(self, error: "RdkafkaError | Exception", message: "Message | None") -> Exception:
        if isinstance(error, Exception):
            return error
        topic = self.topic_of(message)
        about = f"a record for {topic}" if topic else "a record"
        if error.code() == PurgedInQueue.code:  # given up, and why
            if self.fatal is not None:
                return self.fatal
            if self.refusal is not None:
                return refusal_about(self.refusal, about)
        if error.code() == MessageTimedOut.code and not error.fatal():
            why, _, step = self.unreached().partition(". ")
            if why:
                return MessageTimedOut(f"{about} could never be sent: {why}", next_step=step)
        return from_rdkafka(error, about=about)

    # -- failures that wait for somebody to ask

    def note_post(self, error: "RdkafkaError | Exception", message: "Message | None") -> None:
        """A post failed in librdkafka."""
        key = None if message is None else message.key()
        value = None if message is None else message.value()
        failure = self.failure(error, message)
        self.keep_post(FailedRecord(self.topic_of(message), key, value, failure))

    def _failed_and_watched(self, error: Any, message: Any) -> None:
        self.note_post(error, message)
        self.acknowledged.append((error, message))

    def keep_post(self, failed: FailedRecord) -> None:
        self.posts_failed += 1
        if len(self.failed_posts) < FAILURES_KEPT_MAX:
            self.failed_posts.append(failed)

    def take_failed_posts(self) -> RecordsUndelivered | None:
        """What failed since the last time somebody asked."""
        if not self.posts_failed:
            return None
        raised = RecordsUndelivered(self.failed_posts, self.posts_failed)
        self.failed_posts, self.posts_failed = [], 0
        return raised

    def keep_unasked(self, failed: "UnaskedFailure") -> None:
        self.unasked[id(failed)] = failed
        if len(self.unasked) > FAILURES_KEPT_MAX:
            del self.unasked[next(iter(self.unasked))]

    def take_unasked(self) -> list[FailedRecord]:
        """Deliveries that failed and were never awaited."""
        taken, self.unasked = self.unasked, {}
        return [each.failed_record() for each in taken.values()]


class UnaskedFailure(Protocol):
    def failed_record(self) -> FailedRecord: ...


class Page:
    """Records sent between two flushes."""

    __slots__ = ("ledger", "sent", "settled")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sent = 0
        self.settled = 0

    def posted(self, error: Any, message: Any) -> None:
        """The report of a record without a result."""
        self.settled += 1
        if error is not None:
            self.ledger.note_post(error, message)

    def posted_and_watched(self, error: Any, message: Any) -> None:
        self.posted(error, message)
        self.ledger.acknowledged.append((error, message))


class BatchReport:
    """The reports of one batch. It counts as one on its page, and is settled after a poll.

    `report` is what librdkafka calls: a function over cells, because it is called once per record
    and an attribute costs more than all the rest of it.
    """

    __slots__ = ("_reported", "expected", "failed", "left", "page", "report", "waiter")

    def __init__(self, page: Page, expected: int, waiter: Woken) -> None:
        self.page = page
        self.expected = expected
        self.waiter = waiter
        self.failed: list[tuple[Any, Any]] = []
        # Nobody waits for it any more: what fails is told as that of posts is.
        self.left = False
        self.report, self._reported = _batch_report(self.failed, page.ledger)
        page.sent += 1
        page.ledger.batches.append(self)

    @property
    def complete(self) -> bool:
        return self._reported() >= self.expected

    def leave(self) -> None:
        """Wait no longer; flush() and close() tell what fails."""
        self.left = True
        if self not in self.page.ledger.batches:  # it was settled a moment ago
            self.tell()

    def tell(self) -> None:
        """Of two threads that come here each failure is told by one."""
        while self.failed:
            try:
                error, message = self.failed.pop()
            except IndexError:
                return
            self.page.ledger.note_post(error, message)


def _batch_report(
    failed: list[tuple[Any, Any]], ledger: Ledger
) -> tuple[Report, Callable[[], int]]:
    """What librdkafka calls for each record of a batch, and how many it was called for."""
    count = 0

    def report(error: Any, message: Any) -> None:
        nonlocal count
        count += 1
        if error is not None:
            failed.append((error, message))

    def report_and_watch(error: Any, message: Any) -> None:
        report(error, message)
        ledger.acknowledged.append((error, message))

    def reported() -> int:
        return count

    return report_and_watch if ledger.watched else report, reported
