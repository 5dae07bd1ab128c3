"""Commits what courses have decided: their records and their offsets in one transaction.

One transaction at a time takes all that is decided. One that was aborted for certain is made again
with the same writes, but if a topic refuses a record in it: then it takes half of them, and half of
that, until one stands alone, and what it was to write is that record's failure. If nobody knows how
a commit ended, the life of this process' clients ends (`OutcomeUnknown`), and a new one begins from
what the cluster has.

The group's word is asked in every transaction (KIP-447): a member that was put out cannot commit,
and the next owner of its partitions waits until its open transaction is decided.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from penstock.client.consumer import Consumer
from penstock.client.failures import (
    ClientError,
    PurgedInFlight,
    PurgedInQueue,
    is_fatal,
    is_retriable,
    requires_abort,
)
from penstock.client.namespace import Namespace
from penstock.client.producer import Producer, RecordsUndelivered
from penstock.errors import (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    IllegalGeneration,
    OutOfOrderSequenceNumber,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from penstock.model import TopicPartition
from penstock.retry.course import Course, Entry, Portion
from penstock.retry.refusals import end_of_producer, is_unfit, narrowed, refusal_in

log = logging.getLogger("penstock.retry")

# So long a transaction is made again and again before the clients are given up.
PATIENCE_S = 60.0
PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 2.0
# So long the marker behind the last record is waited for at the end, and so often looked for. A
# partition that goes on after a pause tells of its end up to two waits of fetch.max.wait.ms later.
MARKERS_S_MAX = 3.0
MARKERS_LOOK_S = 0.02
# Entries of one transaction, unless some were refused: all that there are.
ENTRIES_MAX = 1 << 30
# The group has moved on: partitions come and go first, then what is left can be committed.
_GROUP_MOVED = (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
# What was refused leaves a gap in the numbers of records: librdkafka gives up what stands behind,
# and closes the gap with the epoch of the abort.
_GIVEN_UP = (OutOfOrderSequenceNumber, PurgedInFlight, PurgedInQueue)


class OutcomeUnknown(ClientError):
    """Nobody knows whether the last transaction was committed."""

    retriable = True
    next_step = "Begin again from what the cluster has committed"


class Unfit(Exception):
    """What an entry was to write was not taken by the producer."""

    def __init__(self, entry: Entry, error: Exception) -> None:
        super().__init__(str(error))
        self.entry = entry
        self.error = error


class Membership:
    """What a transaction has to know of the consumer; asked again when the group has moved."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self._consumer = consumer
        self._metadata: object | None = None
        self.namespace: Namespace = consumer.namespace

    def forget(self) -> None:
        self._metadata = None

    async def ask(self) -> None:
        if self._metadata is None:
            # It waits for the polling thread, for a moment.
            self._metadata = await asyncio.to_thread(self._consumer.group_metadata)

    def leave_to_transactions(
        self, _taker: object, said: Mapping[TopicPartition, int] | None, _of_records: bool, /
    ) -> Mapping[TopicPartition, int]:
        assert said is not None, "the offsets are those of the portion"
        return said

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """The writer knows by itself."""

    def group_metadata(self) -> object:
        assert self._metadata is not None, "it was asked for"
        return self._metadata


class Writer:
    """Of one life."""

    def __init__(
        self,
        consumer: Consumer[bytes, bytes],
        producer: Producer[bytes, bytes],
        courses: Callable[[], Iterable[Course]],
        settled: asyncio.Condition,
        now_ms: Callable[[], int],
    ) -> None:
        self.membership = Membership(consumer)
        self.transactions = 0
        self._consumer = consumer
        self._producer = producer
        self._courses = courses
        self._decided = asyncio.Event()
        self._settled = settled
        self._now_ms = now_ms
        self._turn = asyncio.Lock()
        self._committed: dict[TopicPartition, int] = {}
        # What the consumer was told to count as finished: it may not be committed yet.
        self._finished: dict[TopicPartition, int] = {}
        # Behind the last record of a topic of the ladder, where the marker of its transaction is.
        self._markers: dict[TopicPartition, int] = {}
        # So many entries, from the front, hold one that was refused.
        self._suspects: int | None = None

    def wake(self) -> None:
        """Something was decided."""
        self._decided.set()

    async def run(self) -> None:
        while True:
            await self._decided.wait()
            self._decided.clear()
            more = True
            while more:
                async with self._turn:
                    more = await self._step()

    def begins_at(self, committed: Mapping[TopicPartition, int | None]) -> None:
        """What the group has committed of partitions that came: markers may lie behind it."""
        self._committed.update((place, at) for place, at in committed.items() if at is not None)

    async def catch_up(self, *, patient: bool = False) -> None:
        """Commit what lies behind the last records and is none: markers of transactions. Else
        there would be a lag that nobody can catch up with. `patient` waits for those that have to
        be there, for a while: a record is often committed before the consumer is past its end."""
        until = monotonic() + MARKERS_S_MAX if patient else 0.0
        while self._misses_markers() and monotonic() < until:
            await asyncio.sleep(MARKERS_LOOK_S)
        async with self._turn:
            further = {
                place: at
                for place, at in self._consumer.finished_offsets().items()
                if at > self._committed.get(place, at)
                and self._committed[place] >= self._finished.get(place, 0)
            }
            if further:
                await self._consumer.commit(further)
                self._committed.update(further)

    def _misses_markers(self) -> bool:
        reached = self._consumer.finished_offsets()
        return any(reached.get(place, at + 1) <= at for place, at in self._markers.items())

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """These went elsewhere."""
        self.membership.forget()
        for place in places:
            self._committed.pop(place, None)
            self._finished.pop(place, None)
            self._markers.pop(place, None)

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Until a commit, or a change that was told, makes something true."""
        async with self._settled:
            await self._settled.wait_for(holds)

    async def tell(self) -> None:
        """Something changed that others may wait for."""
        async with self._settled:
            self._settled.notify_all()

    async def _step(self) -> bool:
        """Commit what is decided now; whether there was something."""
        begun_at, pause_s = monotonic(), PAUSE_S_MIN
        while True:
            await self.membership.ask()
            # After the question: what is no longer here was given up before the group moved on.
            limit = ENTRIES_MAX if self._suspects is None else max(1, self._suspects // 2)
            parts = narrowed([(each, each.portion()) for each in self._courses()], limit)
            if not parts:
                return False
            portions = [portion for _, portion in parts]
            offsets = self._offsets(portions)
            try:
                await self._transact(portions, offsets)
            except Exception as error:
                if self._was_refused(parts, error):
                    begun_at, pause_s = monotonic(), PAUSE_S_MIN
                    continue
                if not _may_help(error) or monotonic() - begun_at > PATIENCE_S:
                    raise
                log.warning("a transaction was aborted and will be made again: %s", error)
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
        for course, portion in parts:
            self._markers.update(
                (each.record.place, each.record.offset + 1)
                for each in portion.entries
                if each.wait_ms is not None
            )
            course.committed(portion)
        await self.tell()
        return True

    def _was_refused(self, parts: list[tuple[Course, Portion]], error: Exception) -> bool:
        """Whether one of these entries is to blame: it is decided anew, or looked for among fewer.
        The transaction was aborted."""
        if isinstance(error, Unfit):
            refusal, entry = error.error, error.entry
            course = next(each for each, portion in parts if entry in portion.entries)
        else:
            found = refusal_in(error)
            if found is None:
                return False
            count = sum(len(portion.entries) for _, portion in parts)
            if count > 1:
                self._suspects = count
                log.info("one of %d records was refused and is looked for: %s", count, found)
                return True
            ((course, portion),) = parts
            refusal, entry = found, portion.entries[0]
        self._suspects = None
        course.refused(entry, refusal, self._now_ms())
        record, fate = entry.record, entry.fate
        assert fate is not None, "it is decided anew"
        log.warning(
            "what %s@%d was to write is refused, and it is %s: %s",
            record.place,
            record.offset,
            fate.value,
            refusal,
        )
        return True

    async def _transact(self, portions: list[Portion], offsets: dict[TopicPartition, int]) -> None:
        """OutcomeUnknown, or another exception if it is certain that nothing was committed."""
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

    async def _post(self, entry: Entry) -> None:
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
                    raise Unfit(entry, error) from error
                raise
            await room

    def _offsets(self, portions: list[Portion]) -> dict[TopicPartition, int]:
        """Behind the records, and behind the markers that follow them, if they are known."""
        offsets: dict[TopicPartition, int] = {}
        for portion in portions:
            offsets.update(portion.offsets)
            for entry in portion.entries:
                self._consumer.finish(entry.record)
        for place, at in offsets.items():
            self._finished[place] = max(at, self._finished.get(place, 0))
        further = self._consumer.finished_offsets()
        return {
            # What was finished for an earlier attempt may be more than this one takes.
            place: max(at, further.get(place, at)) if at == self._finished[place] else at
            for place, at in offsets.items()
        }


def _may_help(error: Exception) -> bool:
    """Whether the same writes may be committed by another attempt."""
    if isinstance(error, OutcomeUnknown) or is_fatal(error):
        return False
    if isinstance(error, RecordsUndelivered):
        return all(
            isinstance(each.error, _GIVEN_UP) or _may_help(each.error) for each in error.failures
        )
    return requires_abort(error) or is_retriable(error) or isinstance(error, _GROUP_MOVED)
