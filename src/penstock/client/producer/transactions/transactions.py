"""A producer's transactions: librdkafka's blocking calls, retries, and the meaning of errors.

An error of librdkafka means one of four things: retry (until the time is over), abort and begin
again (aborted here, then raised), a fatal state (raised by every later call), or misuse. A commit
or abort that ran out of time goes on inside librdkafka, and ends before the next transaction
begins.

The block of a transaction is written once for both faces: its steps are generators. Each yields a
call for the client's thread or a flush; the face runs it and throws its error into the generator.
"""

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from penstock.client.failures import (
    ClientClosed,
    ClientError,
    CommitUnknown,
    TimedOut,
    from_rdkafka,
    is_fatal,
    is_retriable,
    refusal_about,
)
from penstock.client.namespace import Namespace
from penstock.client.producer.sending.core import ProducerCore
from penstock.client.records import Record
from penstock.client.runtime.interruption import is_interruption
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition as RdkafkaPartition

log = logging.getLogger("penstock.client.producer")

RETRY_PAUSE_S = 0.05
CALL_SECONDS_MIN = 0.01
# The limit of one call: a rejection is raised soon, and an interruption ends the retries soon.
CALL_SECONDS_MAX = 1.0
# The first and the longest wait for reports before a commit checks for failures.
REPORTS_SECONDS_FIRST = 0.1
REPORTS_SECONDS = 1.0

_UnderWay: TypeAlias = Literal["nothing", "commit", "abort"]
TransactionOutcome: TypeAlias = Literal["unknown", "committed", "aborted"]
_NOTES: Mapping[TransactionOutcome, str] = {
    "committed": "The transaction was committed before the program was interrupted",
    "aborted": "The transaction was aborted: none of its records count",
    "unknown": "The program was interrupted while the transaction committed, and whether it is"
    " committed is unknown. Look at its records before repeating them",
}


class OffsetSource(Protocol):
    """A consumer as a transaction needs it."""

    def leave_to_transactions(
        self, taker: object, said: Mapping[TopicPartition, int] | None, of_records: bool, /
    ) -> Mapping[TopicPartition, int]:
        """Stop timed commits. Return the named offsets, or else those of finished records and of
        the caller's records in flight. Raise if another member owns them, or another open
        transaction has offsets of the same partitions."""
        ...

    def group_metadata(self) -> object: ...

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """Finish all records below these offsets; after an abort there are none."""
        ...


class RecordBatch(Protocol):
    """A batch of a consumer."""

    @property
    def records(self) -> Iterable[Record[Any, Any]]: ...


# The offsets of send_offsets().
OffsetsLike: TypeAlias = (
    Record[Any, Any] | RecordBatch | Sequence[Record[Any, Any]] | Mapping[TopicPartition, int]
)


def offsets_of(said: OffsetsLike) -> dict[TopicPartition, int]:
    """Return the next offset to read per partition."""
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


class TakenOffsets(NamedTuple):
    """A consumer's offsets within a transaction."""

    consumer: OffsetSource
    offsets: Mapping[TopicPartition, int]

    def for_rdkafka(self, own: Namespace) -> "list[RdkafkaPartition]":
        """Return librdkafka's objects, with the namespace's prefix."""
        from confluent_kafka import TopicPartition as RdkafkaPartition

        namespace = getattr(self.consumer, "namespace", own)
        if not isinstance(namespace, Namespace):
            namespace = own
        return [
            RdkafkaPartition(namespace.add(place.topic), place.partition, offset)
            for place, offset in self.offsets.items()
        ]


class TransactionCalls:
    """The calls of one producer. Every method blocks, for about the given time at most."""

    def __init__(self, core: ProducerCore) -> None:
        self._core = core
        self._ready = False
        self.withdrawn = False
        self._open = False
        self._under_way: _UnderWay = "nothing"
        self.outcome: TransactionOutcome = "unknown"  # of the last commit
        # Offsets of the open transaction, or of the one whose commit is in flight.
        self._taken: list[TakenOffsets] = []
        self._asked: list[OffsetSource] = []
        # The last offsets of the open transaction as librdkafka has them, and their member.
        self._sent: tuple[list[RdkafkaPartition], object] | None = None

    def check_begin(self, *, is_owner: bool) -> None:
        """Raise if the caller cannot begin a transaction."""
        self._core.check_life()
        if not self._core.transactional:
            raise ClientError(
                "the producer has no transactional.id", next_step="Give it one in its settings"
            )
        if is_owner:
            raise ClientError(
                "the caller has a transaction open already",
                next_step="End it first: one is open at a time, and waiting would never end",
            )

    def has_offsets(self, consumer: OffsetSource, said: OffsetsLike | None) -> bool:
        """Return whether there are offsets to send. Raise outside of a transaction."""
        if not self._core.in_transaction:
            raise ClientError(
                "offsets are sent inside a transaction",
                next_step="Set transactional.id, and send them inside `producer.transaction()`",
            )
        return bool(self.offsets_to_send(consumer, said).offsets)

    def withdraw(self) -> None:
        """Stop the retries of `begin`: its caller has left."""
        self.withdrawn = True
        self._core.interrupt()

    def begin(self, timeout_s: float) -> None:
        """Open a transaction; the first call registers the producer."""
        rdkafka = self._core.start().rdkafka
        until = time.monotonic() + timeout_s
        if not self._ready:
            self._retry(
                rdkafka.init_transactions,
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
        """Commit, or abort and raise the reason: no transaction is open afterwards."""
        begun_s = time.monotonic()
        until = begun_s + timeout_s
        self.outcome = "unknown"
        try:
            self._end("commit", until)
        except Exception as error:
            if getattr(error, "txn_requires_abort", False):
                self._under_way = "nothing"
                self._abort_after(error, max(until, time.monotonic() + CALL_SECONDS_MIN))
                if self._under_way == "nothing":
                    self.outcome = "aborted"
            elif is_fatal(error):
                self.lost()
            elif is_retriable(error):  # still in flight, or even done
                raise CommitUnknown(
                    f"the commit was not confirmed within {time.monotonic() - begun_s:.3g} s"
                ) from error
            raise
        self.outcome = "committed"
        self._tell_consumers(committed=True)

    def lost(self) -> None:
        """Release the offsets of a lost producer."""
        self._tell_consumers(committed=False)

    def _finish_commit(self, timeout_s: float) -> None:
        """Finish the earlier commit that ran out of time. Readers that got its records again must
        not process them again."""
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

    def give_up(self, timeout_s: float) -> "BlockSteps":
        """Abort the open transaction of a producer that closes."""
        core = self._core
        if core.in_transaction:
            core.set_in_transaction(False)
            try:
                yield ThreadCall(lambda: self.abort(timeout_s), timeout_s)
            except Exception as error:
                log.warning("the open transaction was not aborted: %s", error)
            core.serve()

    def abort_if_open(self, timeout_s: float) -> None:
        """Abort a transaction whose begin was interrupted."""
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

        self._retry(serving, until, f"the transaction's {how}")
        self._under_way = "nothing"
        self._core.handle.in_transaction = False

    def offsets_to_send(self, consumer: OffsetSource, said: OffsetsLike | None) -> TakenOffsets:
        """Return the offsets of this call. The caller's own thread calls this after the group
        metadata was read: records owned then are owned as that member."""
        if consumer not in self._asked:
            self._asked.append(consumer)
        offsets = None if said is None else offsets_of(said)
        # Named records need an owner; bare offsets may repeat the group's own.
        of_records = not isinstance(said, Mapping)
        return TakenOffsets(consumer, consumer.leave_to_transactions(self, offsets, of_records))

    def _tell_consumers(self, *, committed: bool) -> None:
        asked, self._asked = self._asked, []
        taken, self._taken = self._taken, []
        for consumer in asked:
            offsets: dict[TopicPartition, int] = {}
            for each in taken:
                if committed and each.consumer is consumer:
                    offsets.update(each.offsets)
            consumer.transaction_ended(self, offsets)

    def send_offsets(
        self,
        taken: TakenOffsets,
        member: object,
        timeout_s: float,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        rdkafka = self._core.handle.rdkafka
        offsets = taken.for_rdkafka(self._core.namespace)
        self._retry(
            lambda left_s: rdkafka.send_offsets_to_transaction(offsets, member, left_s),
            time.monotonic() + timeout_s,
            "the offsets were not taken into the transaction",
            is_over,
        )
        self._taken.append(taken)
        self._sent = (offsets, member)

    def check_state(self, timeout_s: float) -> None:
        """Raise if the open transaction has failed: librdkafka tells only on a call. Sending the
        offsets again changes nothing."""
        if self._sent is None:
            return
        rdkafka = self._core.handle.rdkafka
        call = partial(rdkafka.send_offsets_to_transaction, *self._sent, timeout_s)
        failure, again = self._attempt(call, "the transaction cannot be committed")
        if failure is not None and not again:
            raise failure

    def _retry(
        self,
        call: Callable[[float], None],
        until: float,
        about: str,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """Repeat a call while librdkafka calls the error retriable, until the time is over."""
        pause = threading.Event()
        while True:
            left = self._core.within_interruption(until - time.monotonic())
            left = min(max(left, CALL_SECONDS_MIN), CALL_SECONDS_MAX)
            failure, again = self._attempt(partial(call, left), about)
            if failure is None:
                return
            if again:
                self._core.handle.poll()  # with no record in flight no other thread may poll
            refusal = self._core.tracker.refusal
            if again and refusal is not None:
                raise refusal_about(refusal, about) from failure
            late = time.monotonic() + RETRY_PAUSE_S >= until or self._core.is_interrupted
            if not again or late or is_over():
                raise failure
            pause.wait(RETRY_PAUSE_S)

    def _attempt(self, call: Callable[[], None], about: str) -> tuple[Exception | None, bool]:
        """Return the failure of a call, if any, and whether a retry may help."""
        from confluent_kafka import KafkaException

        try:
            call()
        except KafkaException as error:
            reported = error.args[0]
            failure = from_rdkafka(reported, about=about)
            failure.__cause__ = error
            if reported.fatal():
                self._core.fail_permanently(failure)
            again = reported.retriable() and not reported.txn_requires_abort()
            return failure, again and not reported.fatal()
        return None, False


class ThreadCall(NamedTuple):
    """A blocking call of librdkafka, and its time limit."""

    call: Callable[[], None]
    limit_s: float


class Flush(NamedTuple):
    """Producer.flush() within a time."""

    limit_s: float


BlockSteps: TypeAlias = Generator[ThreadCall | Flush, None, None]


class TransactionBlock:
    """One transaction of a producer."""

    def __init__(
        self, core: ProducerCore, calls: TransactionCalls, timeout_s: float | None
    ) -> None:
        self._core = core
        self._calls = calls
        self._timeout_s = core.block_s if timeout_s is None else timeout_s
        self._ended = False
        # From then on only the commit's result tells the outcome.
        self.commit_begun = False

    def end(self, error: BaseException | None) -> BlockSteps:
        """Commit, or abort after an error of the block."""
        if self._ended:
            return
        if self._core.in_transaction:
            yield from self._commit() if error is None else self._abort_after(error)
        elif error is None:
            raise ClientClosed("the producer was closed, and its transaction aborted")

    def abort_now(self) -> BlockSteps:
        if not self._ended:
            self._ended = True
            yield from self._abort(self._timeout_s)

    def _commit(self) -> BlockSteps:
        """Flush, then commit; abort if a record failed or the time is over."""
        core, calls, timeout_s = self._core, self._calls, self._timeout_s
        try:
            yield from self._flush()
            failed = core.undelivered(unawaited=True)
            if failed is not None:  # librdkafka does not say which record
                raise failed
        except BaseException as error:
            yield from self._abort_after(error)
            raise
        core.set_in_transaction(False)
        self.commit_begun = True
        try:
            yield ThreadCall(lambda: calls.commit(timeout_s), timeout_s)
        except BaseException as error:
            if is_interruption(error):
                error.add_note(_NOTES[calls.outcome])
            raise
        core.serve()

    def _flush(self) -> BlockSteps:
        """Wait for reports, a moment at a time: after a failure librdkafka sends nothing more of
        the transaction."""
        until, look_s = time.monotonic() + self._timeout_s, REPORTS_SECONDS_FIRST
        while True:
            try:
                yield Flush(min(look_s, max(0.0, until - time.monotonic())))
                return
            except TimedOut as late:
                left_s = max(0.0, until - time.monotonic())
                if not left_s or self._core.has_failures:
                    raise TimedOut(
                        "records of the transaction are still under way after "
                        f"{self._timeout_s - left_s:.3g} s"
                    ) from late
            yield ThreadCall(partial(self._calls.check_state, left_s), left_s)
            look_s = min(2 * look_s, REPORTS_SECONDS)

    def _abort_after(self, error: BaseException) -> BlockSteps:
        limit_s = self._timeout_s
        if is_interruption(error):
            limit_s = min(limit_s, self._core.interrupt())
        try:
            yield from self._abort(limit_s)
        except Exception as second:
            error.add_note(f"The transaction could not be aborted: {second}")
        else:
            if is_interruption(error):
                error.add_note(_NOTES["aborted"])

    def _abort(self, timeout_s: float) -> BlockSteps:
        core, calls = self._core, self._calls
        core.set_in_transaction(False)
        core.drop_waiting(ClientError("the transaction was aborted"))
        yield ThreadCall(lambda: calls.abort(timeout_s), timeout_s)
        core.serve()
        # Records of an aborted transaction are not missing.
        core.undelivered(unawaited=True)
