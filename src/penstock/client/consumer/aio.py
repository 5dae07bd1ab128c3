"""The asyncio Consumer.

    async with Consumer(bootstrap="localhost:9092", group="billing", topics=["orders"]) as consumer:
        async for record in consumer:
            ...

A record is finished when the body of its loop has ended, that is, when the loop asks for the next
one. Only finished records are ever committed. A body that is left early (break, return, an
exception, a cancellation) leaves its record unfinished: the next loop gets it again. Say
`consumer.finish(record)` before a break if it is done.

A body that takes longer than handler.timeout.ms, or than revoke.timeout.ms once its partition is
taken away, is cancelled; `async with` makes that HandlerTimedOut or PartitionsRevoked.
"""

import asyncio
import logging
import time
import warnings
from collections.abc import Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Never, Self, Unpack, overload

from penstock.client.consumer.aio_face import LoopFace
from penstock.client.consumer.aio_loops import BatchLoop, RecordLoop, Steps
from penstock.client.consumer.core import CLOSE_SECONDS, Committable, Core
from penstock.client.consumer.options import ConsumerOptions
from penstock.client.consumer.plan import PlaceLike, Position, Subscription
from penstock.client.failures import DeserializationError, TimedOut
from penstock.client.keywords import refuse_unknown
from penstock.client.namespace import Namespace
from penstock.client.records import K, Record, V
from penstock.client.serde import DeserializerLike, DeserializerOf
from penstock.client.settings import SettingValue
from penstock.model import TopicPartition

log = logging.getLogger("penstock.client.consumer")

UNSUBSCRIBED_LOOK_S = 0.01


class Consumer(Generic[K, V]):
    """Reads records. Settings are Kafka's own names: Consumer({"max.poll.records": 100}, ...)."""

    @overload
    def __init__(
        self: "Consumer[bytes, bytes]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[bytes, V]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        value: DeserializerOf[V],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[bytes, Any]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        value: str,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[K, bytes]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: DeserializerOf[K],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[Any, bytes]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: str,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: DeserializerOf[K] | None = None,
        value: DeserializerOf[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[K, Any]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: DeserializerOf[K],
        value: str,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[Any, V]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: str,
        value: DeserializerOf[V],
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[Any, Any]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: str,
        value: str,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: DeserializerLike[K] | None = None,
        value: DeserializerLike[V] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """Settings are Kafka's own names; `key` and `value` say how to read bytes. Further options:

        bootstrap: host:port of a broker, or several with commas; group: the consumer group
        topics, pattern or assign: what to read, from the start; or say it later
        manual_finish: True if finish(record) ends the work on a record, and not the loop's body
        on_assigned, on_revoked, on_lost: functions, or coroutine functions that get the partitions
        interceptors: ConsumerInterceptors; namespace: a prefix of all topics and groups
        """
        self._face = LoopFace()
        self._core: Core[K, V] = Core(settings, key, value, options, self._face, in_loop=True)
        self._steps: Steps[K, V] = Steps(self._core, self._face)
        self.namespace: Namespace = self._core.plan.namespace

    # -- life

    async def __aenter__(self) -> Self:
        try:
            await self._steps.open()
        except BaseException:
            await self.close()  # nobody else will
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        struck = self._face.struck.pop(task, None)
        await self.close()
        if struck is not None and task.uncancel() > struck.before:
            return  # somebody else has cancelled it, too: that goes first
        if struck is not None and (error is None or isinstance(error, asyncio.CancelledError)):
            raise struck.failure from error
        untold = list(self._face.struck.values())
        if error is None and untold:
            # The body ran in a task of its own, which has ended as cancelled, and told nobody.
            raise untold[0].failure

    async def close(self, timeout_s: float = CLOSE_SECONDS) -> None:
        """Commit what is finished, leave the group, and end. Bodies that run in other tasks get
        what is left of the time, at most revoke.timeout.ms. Comes back in time whatever happens."""
        core = self._core
        if core.engine.forked_off:
            return  # the parent's
        if core.engine.started:
            if not self._face.loop or self._face.loop.is_closed():
                self._face.loop = asyncio.get_running_loop()
            self._face.closer = asyncio.current_task()
            core.engine.close(timeout_s)
            ended = asyncio.wrap_future(core.engine.ended)
            await asyncio.wait([ended], timeout=timeout_s)
            if not ended.done():
                log.warning(
                    "%r has not closed within %g s and is left to itself: its group may wait for "
                    "session.timeout.ms until others read on",
                    self,
                    timeout_s,
                )
            core.reader.tell_commits()
            core.reader.close()
        core.closed = True

    def __del__(self, warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is None or core.closed or not core.engine.started or core.engine.forked_off:
            return
        warn(f"a consumer was never closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
        core.engine.abandon()

    def __repr__(self) -> str:
        return f"<Consumer {self._core.name} group={self._core.plan.group}>"

    # -- reading

    def __aiter__(self) -> RecordLoop[K, V]:
        return RecordLoop(self._steps, self)

    def batches(self, max: int = 500, timeout_s: float = 0.5, **unknown: Never) -> BatchLoop[K, V]:
        """Batches of at most `max` records, gathered for at most `timeout_s` from the first
        one on; never empty. A batch is finished when the body of its loop has ended, and gone
        then: keep its `records` if you need them longer."""
        refuse_unknown("batches()", unknown, ("max", "timeout_s"))
        if max < 1 or timeout_s < 0:
            raise ValueError("a batch has at least one record, and time does not run backwards")
        return BatchLoop(self._steps, self, max, timeout_s)

    async def poll(self, timeout_s: float) -> Record[K, V] | None:
        """The next record, or None if none comes in time. Finishes what poll() or take() gave
        the caller before."""
        records = await self._steps.hand().take(1, timeout_s)
        return records[0] if records else None

    async def take(self, max: int, timeout_s: float = 0.5, **unknown: Never) -> list[Record[K, V]]:
        """Up to `max` records, as many as come within `timeout_s`. Finishes what poll() or take()
        gave the caller before."""
        refuse_unknown("take()", unknown, ("max", "timeout_s"))
        return list(await self._steps.hand().take(max, timeout_s))

    def finish(self, record: Record[Any, Any]) -> bool:
        """The record is done, whether its body has ended or not. False if that no longer counts:
        its partition went elsewhere or was moved, or it is finished already."""
        self._core.engine.check()
        return self._core.reader.finish(record)

    def skip(self, error: DeserializationError) -> bool:
        """Pass over the record that could not be read. False if it is not the next one any more."""
        self._core.engine.check()
        return self._core.skip(error)

    # -- what to read

    async def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        pattern: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Read these topics instead of what was read before, together with the group."""
        await self._steps.open()
        subscription = self._core.plan.subscription(topics, pattern, None)
        await self._steps.read_from(subscription, timeout_s)

    async def assign(
        self,
        places: Mapping[TopicPartition, Position | None],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Read these partitions, from a position or (None) from where the group is."""
        await self._steps.open()
        await self._steps.read_from(self._core.plan.subscription(None, None, places), timeout_s)

    async def unsubscribe(self, *, timeout_s: float | None = None) -> None:
        """Read nothing; the group gives the partitions to others."""
        await self._steps.open()
        limit = self._steps.limit(timeout_s)
        until = time.monotonic() + limit
        await self._steps.wait(self._core.read_from(Subscription(), {}), limit, "unsubscribe")
        while self._core.places():  # they go at the next poll, after their bodies
            if time.monotonic() > until:
                raise TimedOut(f"the partitions were not given up within {limit:g} s")
            await asyncio.sleep(UNSUBSCRIBED_LOOK_S)

    # -- commits

    async def commit(
        self, offsets: Committable = None, *, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """Commit everything that is finished, and what the caller has in hand: the record or batch
        of the loop that this task is in, or what poll() or take() gave it. Or a record, a batch,
        offsets: records and batches that are named count as finished. Gives what was committed.
        """
        await self._steps.open()
        limit = self._steps.limit(timeout_s)
        if offsets is None:
            self._steps.hands.finish_of(asyncio.current_task())
            self._core.finish_of(asyncio.current_task())
        wanted = self._core.to_commit(offsets)
        await self._steps.wait(self._core.commit(wanted, limit), limit, "the commit")
        self._core.reader.tell_commits()
        return self._core.outside(wanted)

    def finished_offsets(self) -> dict[TopicPartition, int]:
        """Per partition the first offset that is not finished; where nothing is, nothing."""
        return self._core.outside(self._core.finished())

    def leave_to_transactions(
        self, taker: object, said: Mapping[TopicPartition, int] | None, of_records: bool, /
    ) -> dict[TopicPartition, int]:
        """For Producer.send_offsets: from now on nothing is committed but by transactions and by
        `commit`. Gives what was said, or what is finished and what the caller has in hand."""
        caller = asyncio.current_task()
        offsets = self._core.leave_to_transactions(caller, taker, said, of_records)
        return self._core.outside(offsets)

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """For Producer.send_offsets: what lies below these is done and does not come again."""
        self._core.transaction_ended(taker, offsets)

    def group_metadata(self) -> object:
        """What a transaction needs to know of this member: librdkafka's own object."""
        return self._core.group_metadata()

    # -- moving

    async def seek(self, place: PlaceLike, to: Position, *, timeout_s: float | None = None) -> None:
        """Read a partition on from an offset, a moment, "start" or "end"."""
        await self._move(to, [place], timeout_s)

    async def rewind(
        self, to: Position, *places: PlaceLike, timeout_s: float | None = None
    ) -> None:
        """As seek, for all partitions that are assigned, unless some are named."""
        await self._move(to, places, timeout_s)

    async def _move(
        self, to: Position, places: Collection[PlaceLike], timeout_s: float | None
    ) -> None:
        await self._steps.open()
        core, limit = self._core, self._steps.limit(timeout_s)
        wanted = core.targets(to, places)
        offsets = await self._steps.wait(core.resolve(wanted, limit), limit, "offsets")
        await self._steps.wait(core.move(offsets), limit, "the seek")

    async def pause(self, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Read nothing of these (of all, if none is named) until they are resumed or revoked."""
        await self._steps.open()
        await self._steps.wait(self._core.pause(places), self._steps.limit(timeout_s), "the pause")

    async def resume(self, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Read these again (all, if none is named), from where they stand."""
        await self._steps.open()
        await self._steps.wait(
            self._core.resume(places), self._steps.limit(timeout_s), "the resume"
        )

    async def paused(self, *, timeout_s: float | None = None) -> list[TopicPartition]:
        """The partitions that pause() has stopped."""
        await self._steps.open()
        return await self._steps.wait(
            self._core.paused(), self._steps.limit(timeout_s), "the question"
        )

    # -- where it stands

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer reads now."""
        self._core.engine.check()
        return tuple(self._core.plan.outside(place) for place in self._core.places())

    async def position(self, place: PlaceLike, *, timeout_s: float | None = None) -> int | None:
        """The offset of the record that comes next; what is fetched and not read does not count.
        None if only the next record will tell (auto.offset.reset=none)."""
        await self._steps.open()
        at = self._core.place(place)
        known = self._core.known_position(at)
        if known is not None:
            return known
        limit = self._steps.limit(timeout_s)
        return await self._steps.wait(self._core.ask_position(at, limit), limit, "the position")

    async def committed(
        self, *places: PlaceLike, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Where the group is, by its commits; None where it has none."""
        await self._steps.open()
        limit = self._steps.limit(timeout_s)
        return await self._steps.wait(self._core.committed(places, limit), limit, "the question")

    async def lag(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """How many offsets each assigned partition is behind its end."""
        await self._steps.open()
        limit = self._steps.limit(timeout_s)
        ends = await self._steps.wait(
            self._core.ends(self._core.places(), limit), limit, "the question"
        )
        return self._core.lag(ends)

    async def watermarks(
        self, place: PlaceLike, *, timeout_s: float | None = None
    ) -> tuple[int, int]:
        """The first offset and the one behind the last; with read_committed behind the last that
        is decided."""
        await self._steps.open()
        limit, at = self._steps.limit(timeout_s), self._core.place(place)
        starts = await self._steps.wait(self._core.starts([at], limit), limit, "the question")
        ends = await self._steps.wait(self._core.ends([at], limit), limit, "the question")
        return starts[at], ends[at]

    async def offsets_for_times(
        self,
        moments: Mapping[TopicPartition, datetime | int],
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, int | None]:
        """The first offsets at or after moments (datetimes, or milliseconds since 1970)."""
        await self._steps.open()
        limit = self._steps.limit(timeout_s)
        return await self._steps.wait(
            self._core.offsets_for_times(moments, limit), limit, "the question"
        )
