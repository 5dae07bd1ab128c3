"""The asyncio Consumer.

    async with Consumer(bootstrap="localhost:9092", group="billing", topics=["orders"]) as consumer:
        async for record in consumer:
            ...

A record is finished when the loop's body has ended, that is, when the loop asks for the next
record. Only finished records are committed. A body that is left early (break, return, an exception,
a cancellation) leaves its record unfinished, and the next loop gets the record again. Call
`consumer.finish(record)` before a break to finish it.

A body that takes longer than handler.timeout.ms, or than revoke.timeout.ms after its partition was
revoked, is cancelled; `async with` makes that HandlerTimedOut or PartitionsRevoked.
"""

import asyncio
import time
import warnings
from collections.abc import Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Never, Self, Unpack, overload

from penstock.client.consumer.assignment.resolved_config import PlaceLike, Position, Subscription
from penstock.client.consumer.engine.aio_adapter import AioAdapter
from penstock.client.consumer.engine.core import CLOSE_SECONDS, Committable, ConsumerCore
from penstock.client.consumer.loops.aio_loops import AioReader, BatchLoop, RecordLoop
from penstock.client.consumer.options import ConsumerOptions
from penstock.client.failures import DeserializationError, TimedOut
from penstock.client.keywords import refuse_unknown
from penstock.client.namespace import Namespace
from penstock.client.records import K, Record, V
from penstock.client.serde import DeserializerLike, DeserializerOf
from penstock.client.settings import SettingValue
from penstock.model import TopicPartition

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
        """Take Kafka's settings; `key` and `value` name deserializers. Further options:

        bootstrap: host:port of a broker, or several with commas; group: the consumer group
        topics, pattern or assign: the first subscription; subscribe() and assign() replace it
        manual_finish: True if finish(record) finishes a record, and not the end of the loop's body
        on_assigned, on_revoked, on_lost: functions, or coroutine functions that get the partitions
        interceptors: ConsumerInterceptors; namespace: a prefix of all topics and groups
        """
        self._adapter = AioAdapter()
        self._core: ConsumerCore[K, V] = ConsumerCore(
            settings, key, value, options, self._adapter, in_loop=True
        )
        self._reader: AioReader[K, V] = AioReader(self._core, self._adapter)
        self.namespace: Namespace = self._core.config.namespace

    # -- opening and closing

    async def __aenter__(self) -> Self:
        try:
            await self._reader.open()
        except BaseException:
            await self.close()
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
        cancelled = self._adapter.cancelled.pop(task, None)
        await self.close()
        if cancelled is not None and task.uncancel() > cancelled.before:
            return  # the application has cancelled the task, too: that goes first
        if cancelled is not None and (error is None or isinstance(error, asyncio.CancelledError)):
            raise cancelled.failure from error
        unraised = list(self._adapter.cancelled.values())
        if error is None and unraised:
            # The body's own task ended as cancelled and raised to no caller.
            raise unraised[0].failure

    async def close(self, timeout_s: float = CLOSE_SECONDS) -> None:
        """Commit finished records, leave the group, and end, within the time. Bodies in other tasks
        get the rest of the time, at most revoke.timeout.ms."""
        core = self._core
        if core.engine.forked_off:
            return  # the parent process closes it
        if core.engine.started:
            if not self._adapter.loop or self._adapter.loop.is_closed():
                self._adapter.loop = asyncio.get_running_loop()
            self._adapter.closer = asyncio.current_task()
            core.engine.close(timeout_s)
            ended = asyncio.wrap_future(core.engine.ended)
            await asyncio.wait([ended], timeout=timeout_s)
            core.end(self, timeout_s, in_time=ended.done())
        core.closed = True

    def __del__(self, warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is not None and core.is_unclosed:
            text = f"a consumer was never closed: {self!r}"
            warn(text, ResourceWarning, source=self, stacklevel=2)
            core.engine.abandon()

    def __repr__(self) -> str:
        return f"<Consumer {self._core.name} group={self._core.config.group}>"

    # -- reading

    def __aiter__(self) -> RecordLoop[K, V]:
        return RecordLoop(self._reader, self)

    def batches(self, max: int = 500, timeout_s: float = 0.5, **unknown: Never) -> BatchLoop[K, V]:
        """Iterate over batches of at most `max` records, each gathered for at most `timeout_s` from
        its first record on, never empty. A batch is finished when the loop's body has ended."""
        refuse_unknown("batches()", unknown, ("max", "timeout_s"))
        if max < 1 or timeout_s < 0:
            raise ValueError("a batch has at least one record, and time does not run backwards")
        return BatchLoop(self._reader, self, max, timeout_s)

    async def poll(self, timeout_s: float) -> Record[K, V] | None:
        """Return the next record, or None if none comes in time. Finish the records that the caller
        got before from poll() or take()."""
        records = await self._reader.taker().take(1, timeout_s)
        return records[0] if records else None

    async def take(self, max: int, timeout_s: float = 0.5, **unknown: Never) -> list[Record[K, V]]:
        """Return up to `max` records that come within `timeout_s`. Finish the records that the
        caller got before from poll() or take()."""
        refuse_unknown("take()", unknown, ("max", "timeout_s"))
        return list(await self._reader.taker().take(max, timeout_s))

    def finish(self, record: Record[Any, Any]) -> bool:
        """Finish a record before its body ends. Return False if that no longer counts: its
        partition was revoked or moved, or the record is finished already."""
        self._core.engine.check()
        return self._core.converter.finish(record)

    def skip(self, error: DeserializationError) -> bool:
        """Skip the record that could not be read. Return False if another record is next by now."""
        self._core.engine.check()
        return self._core.skip(error)

    # -- subscriptions

    async def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        pattern: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Replace the subscription by these topics, shared with the group."""
        await self._reader.open()
        subscription = self._core.config.subscription(topics, pattern, None)
        await self._reader.read_from(subscription, timeout_s)

    async def assign(
        self,
        places: Mapping[TopicPartition, Position | None],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Replace the subscription by these partitions, each from a position or (None) from the
        group's committed offset."""
        await self._reader.open()
        await self._reader.read_from(self._core.config.subscription(None, None, places), timeout_s)

    async def unsubscribe(self, *, timeout_s: float | None = None) -> None:
        """End the subscription; the group gives the partitions to other members."""
        await self._reader.open()
        limit = self._core.limit(timeout_s)
        until = time.monotonic() + limit
        await self._reader.wait(self._core.read_from(Subscription(), {}), limit, "unsubscribe")
        while self._core.places():  # revoked at the next poll, after their bodies
            if time.monotonic() > until:
                raise TimedOut(f"the partitions were not given up within {limit:g} s")
            await asyncio.sleep(UNSUBSCRIBED_LOOK_S)

    # -- commits

    async def commit(
        self, offsets: Committable = None, *, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """Commit a record, a batch, offsets, or else all finished records and the caller's records
        in flight: those of the loop this task is in, or of its last poll() or take(). Committed
        records count as finished. Return the committed offsets."""
        await self._reader.open()
        limit = self._core.limit(timeout_s)
        if offsets is None:
            self._reader.polls.finish_of(asyncio.current_task())
            self._core.finish_of(asyncio.current_task())
        wanted = self._core.to_commit(offsets)
        await self._reader.wait(self._core.commit(wanted, limit), limit, "the commit")
        self._core.converter.notify_interceptors()
        return self._core.without_namespace(wanted)

    def finished_offsets(self) -> dict[TopicPartition, int]:
        """Return the first unfinished offset of each partition with finished records."""
        return self._core.without_namespace(self._core.finished())

    def leave_to_transactions(
        self, taker: object, said: Mapping[TopicPartition, int] | None, of_records: bool, /
    ) -> dict[TopicPartition, int]:
        """Serve Producer.send_offsets: stop timed commits. Return the named offsets, or else those
        of finished records and of the caller's records in flight."""
        caller = asyncio.current_task()
        offsets = self._core.leave_to_transactions(caller, taker, said, of_records)
        return self._core.without_namespace(offsets)

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """Serve Producer.send_offsets: finish all records below these offsets."""
        self._core.transaction_ended(taker, offsets)

    def group_metadata(self) -> object:
        """Return librdkafka's description of this member, for a transaction."""
        return self._core.group_metadata()

    # -- moving

    async def seek(self, place: PlaceLike, to: Position, *, timeout_s: float | None = None) -> None:
        """Read a partition on from an offset, a moment, "start" or "end"."""
        await self._move(to, [place], timeout_s)

    async def rewind(
        self, to: Position, *places: PlaceLike, timeout_s: float | None = None
    ) -> None:
        """Seek the named partitions, or all that are assigned."""
        await self._move(to, places, timeout_s)

    async def _move(
        self, to: Position, places: Collection[PlaceLike], timeout_s: float | None
    ) -> None:
        await self._reader.open()
        core, limit = self._core, self._core.limit(timeout_s)
        wanted = core.targets(to, places)
        offsets = await self._reader.wait(core.resolve(wanted, limit), limit, "offsets")
        await self._reader.wait(core.move(offsets), limit, "the seek")

    async def pause(self, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Stop the named partitions, or all, until resume() or a revocation."""
        await self._reader.ask(lambda _: self._core.pause(places), timeout_s, "the pause")

    async def resume(self, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Read the named partitions again, or all, from their positions."""
        await self._reader.ask(lambda _: self._core.resume(places), timeout_s, "the resume")

    async def paused(self, *, timeout_s: float | None = None) -> list[TopicPartition]:
        """Return the partitions that pause() has stopped."""
        return await self._reader.ask(lambda _: self._core.paused(), timeout_s, "the question")

    # -- positions

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer reads now."""
        self._core.engine.check()
        return tuple(self._core.config.without_namespace(place) for place in self._core.places())

    async def position(self, place: PlaceLike, *, timeout_s: float | None = None) -> int | None:
        """Return the offset of the next record to read, not counting fetched and unread ones. None
        if only the next record will tell (auto.offset.reset=none)."""
        await self._reader.open()
        at = self._core.place(place)
        known = self._core.known_position(at)
        if known is not None:
            return known
        return await self._reader.ask(
            lambda limit_s: self._core.ask_position(at, limit_s), timeout_s, "the position"
        )

    async def committed(
        self, *places: PlaceLike, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the committed offsets of the group; None where the group has none."""
        return await self._reader.ask(
            lambda limit_s: self._core.committed(places, limit_s), timeout_s, "the question"
        )

    async def lag(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """Return how many offsets each assigned partition is behind its end."""
        return await self._reader.ask(self._core.lag, timeout_s, "the question")

    async def watermarks(
        self, place: PlaceLike, *, timeout_s: float | None = None
    ) -> tuple[int, int]:
        """Return the first offset and the end offset; with read_committed the end is the last
        stable offset."""
        return await self._reader.ask(
            lambda limit_s: self._core.watermarks(place, limit_s), timeout_s, "the question"
        )

    async def offsets_for_times(
        self,
        moments: Mapping[TopicPartition, datetime | int],
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, int | None]:
        """Return the first offsets at or after moments (datetimes, or milliseconds since 1970)."""
        return await self._reader.ask(
            lambda limit_s: self._core.offsets_for_times(moments, limit_s),
            timeout_s,
            "the question",
        )
