"""Commits what courses have decided: their records and their offsets in one transaction.

One transaction at a time takes all that is decided. One that was aborted for certain is made again
with the same writes; if nobody knows how a commit ended, the life of this process' clients ends
(`OutcomeUnknown`), and a new one begins from what the cluster has.

The group's word is asked in every transaction (KIP-447): a member that was put out cannot commit,
and the next owner of its partitions waits until its open transaction is decided.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from penstock.client.consumer import Consumer
from penstock.client.failures import ClientError, is_fatal, is_retriable, requires_abort
from penstock.client.namespace import Namespace
from penstock.client.producer import Producer
from penstock.errors import (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from penstock.model import TopicPartition
from penstock.retry.course import Course, Portion

log = logging.getLogger("penstock.retry")

# So long a transaction is made again and again before the clients are given up.
PATIENCE_S = 60.0
PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 2.0
# The group has moved on: partitions come and go first, then what is left can be committed.
_GROUP_MOVED = (
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)


class OutcomeUnknown(ClientError):
    """Nobody knows whether the last transaction was committed."""

    retriable = True
    next_step = "Begin again from what the cluster has committed"


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

    def finished_offsets(self) -> Mapping[TopicPartition, int]:
        raise AssertionError("offsets are those of the portion")

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
    ) -> None:
        self.membership = Membership(consumer)
        self.transactions = 0
        self._consumer = consumer
        self._producer = producer
        self._courses = courses
        self._decided = asyncio.Event()
        self._settled = settled
        # Held while something that the consumer counts as finished is not committed yet.
        self._turn = asyncio.Lock()
        self._committed: dict[TopicPartition, int] = {}

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

    async def catch_up(self) -> None:
        """Commit what lies behind the last records and is none: markers of transactions. Else
        there would be a lag that nobody can catch up with."""
        async with self._turn:
            further = {
                place: at
                for place, at in self._consumer.finished_offsets().items()
                if at > self._committed.get(place, at)
            }
            if further:
                await self._consumer.commit(further)
                self._committed.update(further)

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """These went elsewhere."""
        self.membership.forget()
        for place in places:
            self._committed.pop(place, None)

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
            parts = [(each, each.portion()) for each in self._courses()]
            parts = [(course, portion) for course, portion in parts if portion]
            if not parts:
                return False
            portions = [portion for _, portion in parts]
            offsets = self._offsets(portions)
            try:
                await self._transact(portions, offsets)
            except Exception as error:
                if not _may_help(error) or monotonic() - begun_at > PATIENCE_S:
                    raise
                log.warning("a transaction was aborted and will be made again: %s", error)
                self.membership.forget()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
                continue
            break
        self.transactions += 1
        self._committed.update(offsets)
        for course, portion in parts:
            course.committed(portion)
        await self.tell()
        return True

    async def _transact(self, portions: list[Portion], offsets: dict[TopicPartition, int]) -> None:
        """OutcomeUnknown, or another exception if it is certain that nothing was committed."""
        producer, all_written = self._producer, False
        try:
            async with producer.transaction():
                for portion in portions:
                    for each in portion.writes:
                        await producer.post(
                            each.topic,
                            each.value,
                            each.key,
                            partition=each.partition,
                            headers=each.headers or None,
                        )
                await producer.send_offsets(self.membership, offsets)
                await producer.flush()
                all_written = True
        except Exception as error:
            if all_written and not requires_abort(error):
                raise OutcomeUnknown(str(error)) from error
            raise

    def _offsets(self, portions: list[Portion]) -> dict[TopicPartition, int]:
        """Behind the records, and behind the markers that follow them, if they are known."""
        offsets: dict[TopicPartition, int] = {}
        for portion in portions:
            offsets.update(portion.offsets)
            for entry in portion.entries:
                self._consumer.finish(entry.record)
        further = self._consumer.finished_offsets()
        return {place: max(at, further.get(place, at)) for place, at in offsets.items()}


def _may_help(error: Exception) -> bool:
    """Whether the same writes may be committed by another attempt."""
    if isinstance(error, OutcomeUnknown) or is_fatal(error):
        return False
    return requires_abort(error) or is_retriable(error) or isinstance(error, _GROUP_MOVED)
