"""A producer's transactions: librdkafka's blocking calls, retried, and what their errors mean.

An error of librdkafka's says one of four things: try again (we do, until the time is up), abort
and begin anew (done by us, then raised), the producer is of no more use (kept, and raised by
whatever is asked of it next), or plain misuse. A commit or abort that ran out of time is still
under way inside librdkafka; it is finished before the next transaction begins.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from penstock.client.failures import (
    ClientError,
    CommitUnknown,
    TimedOut,
    from_rdkafka,
    is_fatal,
    is_retriable,
    refusal_about,
)
from penstock.client.namespace import Namespace
from penstock.client.producer.core import Core
from penstock.client.records import Record
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition as RdkafkaPartition

RETRY_PAUSE_S = 0.05
CALL_SECONDS_MIN = 0.01
# librdkafka is asked so long at a time: whoever is not let in hears of it soon.
INIT_SECONDS = 1.0
# So long a commit waits for reports before it looks whether it has failed: at first, and at most.
REPORTS_SECONDS_FIRST = 0.1
REPORTS_SECONDS = 1.0

_UnderWay: TypeAlias = Literal["nothing", "commit", "abort"]


class OffsetSource(Protocol):
    """A consumer, as far as a transaction needs one."""

    def leave_to_transactions(
        self, taker: object, said: Mapping[TopicPartition, int] | None, of_records: bool, /
    ) -> Mapping[TopicPartition, int]:
        """From now on it commits nothing by itself. Gives what was said, or else what a transaction
        of the caller may take: what is finished, and what he has in hand. Raises if that, or what
        was said `of_records`, went to another member; and if another taker has offsets of the same
        partitions, for nobody knows which of two transactions ends first."""
        ...

    def group_metadata(self) -> object: ...

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """What lies below these is done, also if it is still in somebody's hands; of one that was
        aborted nothing is."""
        ...


class RecordBatch(Protocol):
    """A batch of a consumer."""

    @property
    def records(self) -> Iterable[Record[Any, Any]]: ...


# What may be committed instead of everything that is finished.
OffsetsLike: TypeAlias = (
    Record[Any, Any] | RecordBatch | Sequence[Record[Any, Any]] | Mapping[TopicPartition, int]
)


def offsets_of(said: OffsetsLike) -> dict[TopicPartition, int]:
    """The next offset to read per partition."""
    if isinstance(said, Mapping):
        return dict(said)
    if isinstance(said, Record):
        records: Iterable[Record[Any, Any]] = (said,)
    else:
        records = said if isinstance(said, Sequence) else said.records
    offsets: dict[TopicPartition, int] = {}
    for record in records:
        place = record.place
        offsets[place] = max(offsets.get(place, 0), record.offset + 1)
    return offsets


class Taken(NamedTuple):
    """Offsets of a consumer that go with a transaction."""

    consumer: OffsetSource
    offsets: Mapping[TopicPartition, int]

    def for_rdkafka(self, own: Namespace) -> "list[RdkafkaPartition]":
        """Names as they are on the cluster."""
        from confluent_kafka import TopicPartition as RdkafkaPartition

        namespace = getattr(self.consumer, "namespace", own)
        if not isinstance(namespace, Namespace):
            namespace = own
        return [
            RdkafkaPartition(namespace.add(place.topic), place.partition, offset)
            for place, offset in self.offsets.items()
        ]


class CommitFlush:
    """How long a commit waits for reports, a moment at a time: once something has failed librdkafka
    sends nothing more, and there is nothing to wait for but reports."""

    def __init__(self, core: Core, timeout_s: float) -> None:
        self._core = core
        self._timeout_s = timeout_s
        self._until = time.monotonic() + timeout_s
        self._look_s = REPORTS_SECONDS_FIRST

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def next_s(self) -> float:
        look_s = self._look_s
        self._look_s = min(2 * look_s, REPORTS_SECONDS)
        return min(self.left_s, look_s)

    def check(self, late: TimedOut) -> None:
        """Another moment has passed; raises if it was the last one."""
        left_s = self.left_s
        if not left_s or self._core.has_failures:
            raise TimedOut(
                "records of the transaction are still under way after "
                f"{self._timeout_s - left_s:.3g} s"
            ) from late


class TransactionCalls:
    """Of one producer. Every method blocks, for at most about the time it is given."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ready = False
        self.withdrawn = False
        self._open = False
        self._under_way: _UnderWay = "nothing"
        # Of the open transaction, or of the one whose commit is under way.
        self._taken: list[Taken] = []
        self._asked: list[OffsetSource] = []
        # The last offsets of the open transaction, as librdkafka has them, and of which member.
        self._sent: tuple[list[RdkafkaPartition], object] | None = None

    def withdraw(self) -> None:
        """The caller of `begin` waits no longer: nothing is asked again."""
        self.withdrawn = True

    def begin(self, timeout_s: float) -> None:
        """Open a transaction; the first time the cluster is told who we are."""
        rdkafka = self._core.start().rdkafka
        until = time.monotonic() + timeout_s
        if not self._ready:
            self._insist(
                lambda left_s: rdkafka.init_transactions(min(left_s, INIT_SECONDS)),
                until,
                "transactions cannot be prepared",
                lambda: self.withdrawn or self._core.closing,
            )
            self._ready = True
        if self._under_way == "commit":
            self._finish_commit(until - time.monotonic())
        elif self._under_way == "abort":
            self._end("abort", until)
        failure, _again = self._attempt(rdkafka.begin_transaction, "a transaction cannot be begun")
        if failure is not None:
            raise failure
        self._open = self._core.handle.in_transaction = True

    def commit(self, timeout_s: float) -> None:
        """Commit, or abort and raise why: after it no transaction is open."""
        until = time.monotonic() + timeout_s
        try:
            self._end("commit", until)
        except Exception as error:
            if getattr(error, "txn_requires_abort", False):
                self._under_way = "nothing"
                self._abort_after(error, max(until, time.monotonic() + CALL_SECONDS_MIN))
            elif is_fatal(error):
                self.lost()
            elif is_retriable(error):  # it is still under way, or even done
                raise CommitUnknown(
                    f"the commit was not confirmed within {timeout_s:g} s"
                ) from error
            raise
        self._tell_consumers(committed=True)

    def lost(self) -> None:
        """The producer is of no more use: another may take the offsets."""
        self._tell_consumers(committed=False)

    def _finish_commit(self, timeout_s: float) -> None:
        """Of the transaction before, whose commit ran out of time. Whoever has read its records
        again since then must not do them again."""
        had_offsets = bool(self._taken)
        self.commit(timeout_s)
        if had_offsets:
            raise ClientError(
                "the transaction before this one has committed after all, and what it was about "
                "is done",
                next_step="Leave the loop and read on: its records do not come again",
            )

    def abort(self, timeout_s: float) -> None:
        self._end("abort", time.monotonic() + timeout_s)

    def abort_if_open(self, timeout_s: float) -> None:
        """For those who were interrupted while they began."""
        if self._open:
            self.abort(timeout_s)

    def _abort_after(self, error: Exception, until: float) -> None:
        try:
            self._end("abort", until)
        except Exception as second:
            error.add_note(f"The transaction could not be aborted either: {second}")

    def _end(self, how: Literal["commit", "abort"], until: float) -> None:
        rdkafka = self._core.handle.rdkafka
        call = rdkafka.commit_transaction if how == "commit" else rdkafka.abort_transaction
        self._under_way = how
        self._open = False
        self._sent = None
        if how == "abort":
            self._tell_consumers(committed=False)

        def serving(timeout_s: float) -> None:
            self._core.handle.call(call, timeout_s)

        self._insist(serving, until, f"the transaction's {how}")
        self._under_way = "nothing"
        self._core.handle.in_transaction = False

    def offsets_to_send(self, consumer: OffsetSource, said: OffsetsLike | None) -> Taken:
        """What was said, or else all that the caller may commit. To be called by him, and after the
        group was asked who its members are: what is his then is his as that member."""
        if consumer not in self._asked:
            self._asked.append(consumer)
        offsets = None if said is None else offsets_of(said)
        # Records were read by somebody; offsets as such may also say again what the group has.
        of_records = not isinstance(said, Mapping)
        return Taken(consumer, consumer.leave_to_transactions(self, offsets, of_records))

    def _tell_consumers(self, *, committed: bool) -> None:
        asked, self._asked = self._asked, []
        taken, self._taken = self._taken, []
        for consumer in asked:
            offsets: dict[TopicPartition, int] = {}
            for each in taken:
                if committed and each.consumer is consumer:
                    offsets.update(each.offsets)
            consumer.transaction_ended(self, offsets)

    def send_offsets(self, taken: Taken, member: object, timeout_s: float) -> None:
        rdkafka = self._core.handle.rdkafka
        offsets = taken.for_rdkafka(self._core.namespace)
        self._insist(
            lambda left_s: rdkafka.send_offsets_to_transaction(offsets, member, left_s),
            time.monotonic() + timeout_s,
            "the offsets were not taken into the transaction",
        )
        self._taken.append(taken)
        self._sent = (offsets, member)

    def look(self, timeout_s: float) -> None:
        """Raises if the open transaction has failed: librdkafka then sends nothing more of it, and
        says so only to who asks for something. Offsets sent again change nothing."""
        if self._sent is None:
            return
        rdkafka = self._core.handle.rdkafka
        call = partial(rdkafka.send_offsets_to_transaction, *self._sent, timeout_s)
        failure, again = self._attempt(call, "the transaction cannot be committed")
        if failure is not None and not again:
            raise failure

    def _insist(
        self,
        call: Callable[[float], None],
        until: float,
        about: str,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Again and again while librdkafka says that it may help, until the time is up."""
        pause = threading.Event()
        while True:
            left = max(until - time.monotonic(), CALL_SECONDS_MIN)
            failure, again = self._attempt(partial(call, left), about)
            if failure is None:
                return
            if again:
                self._core.handle.poll()  # nothing is under way yet, so perhaps nobody else does
            refusal = self._core.ledger.refusal
            if again and refusal is not None:
                raise refusal_about(refusal, about) from failure
            if not again or is_over() or time.monotonic() + RETRY_PAUSE_S >= until:
                raise failure
            pause.wait(RETRY_PAUSE_S)

    def _attempt(self, call: Callable[[], None], about: str) -> tuple[Exception | None, bool]:
        """Why it failed, if it did, and whether the same call may be made again."""
        from confluent_kafka import KafkaException

        try:
            call()
        except KafkaException as error:
            reported = error.args[0]
            failure = from_rdkafka(reported, about=about)
            failure.__cause__ = error
            if reported.fatal():
                self._core.fail_for_good(failure)
            again = reported.retriable() and not reported.txn_requires_abort()
            return failure, again and not reported.fatal()
        return None, False
