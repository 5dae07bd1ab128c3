"""Commits decided records: their writes and their offsets in one transaction.

One transaction at a time takes all decided records. An aborted transaction is tried again with the
same writes. If a topic rejects a record, the next transactions take half of the records, then a
quarter, until the rejected record is alone; that record has failed. If the outcome of a commit is
unknown, the session ends (`OutcomeUnknown`), and a new one starts from the committed offsets.

Every transaction carries the group metadata (KIP-447): a fenced member cannot commit, and the next
owner of its partitions waits until its open transaction is decided.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from penstock.client.consumer import Consumer
from penstock.client.failures import (
    ClientError,
    InvalidArgument,
    OtherRecordInvalid,
    PurgedInFlight,
    PurgedInQueue,
    SerializationError,
    UnknownPartition,
    is_fatal,
    is_retriable,
    requires_abort,
)
from penstock.client.namespace import Namespace
from penstock.client.producer import Producer, RecordsUndelivered
from penstock.errors import (
    CoordinatorLoadInProgress,
    CorruptMessage,
    FencedMemberEpoch,
    IllegalGeneration,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RebalanceInProgress,
    RecordListTooLarge,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedForMessageFormat,
)
from penstock.model import TopicPartition
from penstock.retry.partition_state import AdmittedRecord, PartitionState, Portion

log = logging.getLogger("penstock.retry")

# How long a transaction is tried again before the session ends.
PATIENCE_S = 60.0
PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 2.0
# How long the end waits for the marker behind the last record, and how often it looks. A resumed
# partition reports its end up to two waits of fetch.max.wait.ms later.
MARKERS_S_MAX = 3.0
MARKERS_LOOK_S = 0.02
# Records of one transaction while none is rejected: no limit.
ENTRIES_MAX = 1 << 30
# The group rebalances; the remaining partitions can be committed afterwards.
_GROUP_MOVED = (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
# A rejected record leaves a gap in the sequence numbers: librdkafka purges the records behind it,
# and closes the gap with the epoch bump of the abort.
_GIVEN_UP = (OutOfOrderSequenceNumber, PurgedInFlight, PurgedInQueue)


class OutcomeUnknown(ClientError):
    """The outcome of the last commit is unknown."""

    retriable = True
    next_step = "Begin again from what the cluster has committed"


class RecordUnfit(Exception):
    """The producer does not take a write of this record."""

    def __init__(self, entry: AdmittedRecord, error: Exception) -> None:
        super().__init__(str(error))
        self.entry = entry
        self.error = error


class GroupMembership:
    """The group metadata for transactions; fetched again after a rebalance."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer
        self._metadata: object | None = None
        self.namespace: Namespace = consumer.namespace

    def forget(self) -> None:
        self._metadata = None

    async def ask(self) -> None:
        if self._metadata is None:
            # The call waits shortly for the polling thread.
            self._metadata = await asyncio.to_thread(self._consumer.group_metadata)

    def leave_to_transactions(
        self, _taker: object, said: Mapping[TopicPartition, int] | None, _of_records: bool, /
    ) -> Mapping[TopicPartition, int]:
        assert said is not None, "the offsets are those of the portion"
        return said

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """Do nothing: the writer keeps the committed offsets."""

    def group_metadata(self) -> object:
        assert self._metadata is not None, "it was asked for"
        return self._metadata


class Writer:
    """Writes the transactions of one session."""

    def __init__(
        self,
        consumer: Consumer[bytes, bytes],
        producer: Producer[bytes, bytes],
        partition_states: Callable[[], Iterable[PartitionState]],
        state_changed: asyncio.Condition,
        now_ms: Callable[[], int],
    ) -> None:
        self.membership = GroupMembership(consumer)
        self.transactions = 0
        self._consumer = consumer
        self._producer = producer
        self._partition_states = partition_states
        self._decided = asyncio.Event()
        self._state_changed = state_changed
        self._now_ms = now_ms
        self._lock = asyncio.Lock()
        self._committed: dict[TopicPartition, int] = {}
        # Offsets that the consumer counts as finished; they may not be committed yet.
        self._finished: dict[TopicPartition, int] = {}
        # The offset behind the last record of a retry topic: the marker of its transaction.
        self._markers: dict[TopicPartition, int] = {}
        # The number of records at the front that include a rejected one.
        self._suspects: int | None = None

    def wake(self) -> None:
        """Wake the writer after a decision."""
        self._decided.set()

    async def run(self) -> None:
        while True:
            await self._decided.wait()
            self._decided.clear()
            more = True
            while more:
                async with self._lock:
                    more = await self._step()

    def begins_at(self, committed: Mapping[TopicPartition, int | None]) -> None:
        """Take over the committed offsets of assigned partitions; markers may follow these."""
        self._committed.update(
            (topic_partition, at) for topic_partition, at in committed.items() if at is not None
        )

    async def commit_markers(self, *, wait_for_markers: bool = False) -> None:
        """Commit offsets past transaction markers, so that the group shows no lag at the end.
        `wait_for_markers` waits for markers that have to come: a record is often committed before
        the consumer has read its marker."""
        until = monotonic() + MARKERS_S_MAX if wait_for_markers else 0.0
        while self._misses_markers() and monotonic() < until:
            await asyncio.sleep(MARKERS_LOOK_S)
        async with self._lock:
            further = {
                topic_partition: at
                for topic_partition, at in self._consumer.finished_offsets().items()
                if at > self._committed.get(topic_partition, at)
                and self._committed[topic_partition] >= self._finished.get(topic_partition, 0)
            }
            if further:
                await self._consumer.commit(further)
                self._committed.update(further)

    def _misses_markers(self) -> bool:
        reached = self._consumer.finished_offsets()
        return any(
            reached.get(topic_partition, at + 1) <= at
            for topic_partition, at in self._markers.items()
        )

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were revoked."""
        self.membership.forget()
        for topic_partition in topic_partitions:
            self._committed.pop(topic_partition, None)
            self._finished.pop(topic_partition, None)
            self._markers.pop(topic_partition, None)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds` is true; checked after each commit and each notify()."""
        async with self._state_changed:
            await self._state_changed.wait_for(holds)

    async def notify(self) -> None:
        """Notify the tasks in wait_until() of a change."""
        async with self._state_changed:
            self._state_changed.notify_all()

    async def _step(self) -> bool:
        """Commit the decided records; return whether there were any."""
        begun_at, pause_s = monotonic(), PAUSE_S_MIN
        while True:
            await self.membership.ask()
            # Read the states after the metadata: revoked partitions are gone by then.
            limit = ENTRIES_MAX if self._suspects is None else max(1, self._suspects // 2)
            parts = limit_portions(
                [(each, each.portion()) for each in self._partition_states()], limit
            )
            if not parts:
                return False
            portions = [portion for _, portion in parts]
            offsets = self._offsets(portions)
            try:
                await self._transact(portions, offsets)
            except Exception as error:
                if self._was_rejected(parts, error):
                    begun_at, pause_s = monotonic(), PAUSE_S_MIN
                    continue
                if not _may_help(error) or monotonic() - begun_at > PATIENCE_S:
                    raise
                log.warning("a transaction was aborted and is tried again: %s", error)
                self.membership.forget()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
                continue
            break
        self.transactions += 1
        if self._suspects is not None:
            self._suspects -= sum(len(each.entries) for each in portions)
            self._suspects = self._suspects if self._suspects > 0 else None
        self._committed.update(offsets)
        for partition_state, portion in parts:
            self._markers.update(
                (each.record.place, each.record.offset + 1)
                for each in portion.entries
                if each.wait_ms is not None
            )
            partition_state.committed(portion)
        await self.notify()
        return True

    def _was_rejected(self, parts: list[tuple[PartitionState, Portion]], error: Exception) -> bool:
        """Return whether a rejected record made the transaction abort. If that record is known,
        decide it again; else narrow the search."""
        if isinstance(error, RecordUnfit):
            rejection, entry = error.error, error.entry
            partition_state = next(each for each, portion in parts if entry in portion.entries)
        else:
            found = rejection_in(error)
            if found is None:
                return False
            count = sum(len(portion.entries) for _, portion in parts)
            if count > 1:
                self._suspects = count
                log.info(
                    "a topic rejected one of %d records; smaller transactions will find it: %s",
                    count,
                    found,
                )
                return True
            ((partition_state, portion),) = parts
            rejection, entry = found, portion.entries[0]
        self._suspects = None
        partition_state.rejected(entry, rejection, self._now_ms())
        record, outcome = entry.record, entry.outcome
        assert outcome is not None, "it is decided again"
        log.warning(
            "a topic rejected the write for %s@%d, and the record is %s: %s",
            record.place,
            record.offset,
            outcome.value,
            rejection,
        )
        return True

    async def _transact(self, portions: list[Portion], offsets: dict[TopicPartition, int]) -> None:
        """Raise OutcomeUnknown, or another error if certainly nothing was committed."""
        transaction = self._producer.transaction()
        try:
            async with transaction:
                for portion in portions:
                    for entry in portion.entries:
                        await self._post(entry)
                await self._producer.send_offsets(self.membership, offsets)
        except Exception as error:
            if transaction.commit_begun and not requires_abort(error):
                raise OutcomeUnknown(str(error)) from error
            ended = end_of_producer(error)
            if ended is not None:
                raise ended from error
            raise

    async def _post(self, entry: AdmittedRecord) -> None:
        for each in entry.writes:
            try:
                room = self._producer.post(
                    each.topic,
                    each.value,
                    each.key,
                    partition=each.partition,
                    headers=each.headers or None,
                    timestamp_ms=each.timestamp_ms,
                )
            except Exception as error:
                if is_unfit(error):
                    raise RecordUnfit(entry, error) from error
                raise
            await room

    def _offsets(self, portions: list[Portion]) -> dict[TopicPartition, int]:
        """Return the offsets behind the records, and behind known markers that follow."""
        offsets: dict[TopicPartition, int] = {}
        for portion in portions:
            offsets.update(portion.offsets)
            for entry in portion.entries:
                self._consumer.finish(entry.record)
        for topic_partition, at in offsets.items():
            self._finished[topic_partition] = max(at, self._finished.get(topic_partition, 0))
        further = self._consumer.finished_offsets()
        return {
            # An earlier attempt may have finished more records than this one takes.
            topic_partition: max(at, further.get(topic_partition, at))
            if at == self._finished[topic_partition]
            else at
            for topic_partition, at in offsets.items()
        }


def _may_help(error: Exception) -> bool:
    """Return whether another attempt may commit the same writes."""
    if isinstance(error, OutcomeUnknown) or is_fatal(error):
        return False
    if isinstance(error, RecordsUndelivered):
        return all(
            isinstance(each.error, _GIVEN_UP) or _may_help(each.error) for each in error.failures
        )
    return requires_abort(error) or is_retriable(error) or isinstance(error, _GROUP_MOVED)


# -- failures of a transaction that one of its records has caused

# Errors of one record, raised by its topic or by the producer before the send.
_OF_A_RECORD = (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OtherRecordInvalid,
    RecordListTooLarge,
    SerializationError,
    UnknownPartition,
    UnsupportedForMessageFormat,
)
# Errors of one record if the producer raises these when the record is handed over.
_OF_WHAT_IS_SENT = (*_OF_A_RECORD, InvalidArgument, OverflowError, TypeError, ValueError)


def rejection_in(error: BaseException) -> Exception | None:
    """Return the rejection of a record in a failed transaction; None for other failures."""
    if isinstance(error, RecordsUndelivered):
        if is_fatal(error):
            return None
        told = [each.error for each in error.failures if isinstance(each.error, _OF_A_RECORD)]
        # Records in the same batch as the rejected one fail, too.
        own = [each for each in told if not isinstance(each, OtherRecordInvalid)]
        return next(iter([*own, *told]), None)
    return error if isinstance(error, _OF_A_RECORD) and not is_fatal(error) else None


def is_unfit(error: BaseException) -> bool:
    """Return whether an error at the handover means that the record can never be sent."""
    return isinstance(error, _OF_WHAT_IS_SENT) and not is_fatal(error)


def limit_portions(
    parts: Iterable[tuple[PartitionState, Portion]], entries_max: int
) -> list[tuple[PartitionState, Portion]]:
    """Return portions with at most `entries_max` records, from the fronts."""
    taken, room = list[tuple[PartitionState, Portion]](), entries_max
    for partition_state, portion in parts:
        part = Portion(portion.entries[:room])
        room -= len(part.entries)
        if part:
            taken.append((partition_state, part))
    return taken


def end_of_producer(error: BaseException) -> Exception | None:
    """Return the fatal error of the producer if records were not delivered because of it."""
    if not isinstance(error, RecordsUndelivered):
        return None
    return next((each.error for each in error.failures if is_fatal(each.error)), None)
