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
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Never, ParamSpec, Self, TypeVar, Unpack, overload

from penstock.client.consumer.engine.app_adapter import AioAdapter
from penstock.client.consumer.engine.core import CLOSE_SECONDS, ConsumerCore
from penstock.client.consumer.engine.operations import (
    ConsumerOperations,
    OperationSteps,
    describe_as,
)
from penstock.client.consumer.face import ConsumerFace
from penstock.client.consumer.loops.aio_loops import AioReader, BatchLoop, RecordLoop
from penstock.client.consumer.options import ConsumerOptions
from penstock.client.keywords import refuse_unknown
from penstock.client.records import ReadKey, ReadValue, Record
from penstock.client.runtime.interruption import INTERRUPTED_SECONDS_MAX, is_interruption
from penstock.client.serde.protocols import DeserializerLike, DeserializerOf
from penstock.client.settings import SettingValue

P = ParamSpec("P")
T = TypeVar("T")


def awaited(
    operation: Callable[Concatenate[ConsumerOperations, P], OperationSteps[T]],
) -> Callable[Concatenate["Consumer[Any, Any]", P], Coroutine[Any, Any, T]]:
    """Return an operation as a coroutine function of the consumer."""

    async def call(self: "Consumer[Any, Any]", /, *arguments: P.args, **named: P.kwargs) -> T:
        reader = self._reader
        return await reader.run(operation(reader.operations, *arguments, **named))

    describe_as(call, operation)
    return call


class Consumer(ConsumerFace[ReadKey, ReadValue]):
    """Reads records. Settings are Kafka's own names: Consumer({"max.poll.records": 100}, ...)."""

    @overload
    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: DeserializerOf[ReadKey] | None = None,
        value: DeserializerOf[ReadValue] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[ReadKey, Any]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: DeserializerOf[ReadKey] | None = None,
        value: str,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: "Consumer[Any, ReadValue]",
        settings: Mapping[str, SettingValue] | None = None,
        /,
        *,
        key: str,
        value: DeserializerOf[ReadValue] | None = None,
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
        key: DeserializerLike[ReadKey] | None = None,
        value: DeserializerLike[ReadValue] | None = None,
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
        core: ConsumerCore[ReadKey, ReadValue] = ConsumerCore(
            settings, key, value, options, self._adapter, in_loop=True
        )
        super().__init__(core, self._adapter.caller)
        self._reader = AioReader(core, self._adapter)

    # -- opening and closing

    async def __aenter__(self) -> Self:
        try:
            await self._reader.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        cancelled = self._adapter.cancelled.pop(task, None)
        # The consumer itself cancels a task that is too slow: that is no interruption.
        interrupted = cancelled is None and is_interruption(error)
        await self.close(INTERRUPTED_SECONDS_MAX if interrupted else CLOSE_SECONDS)
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

    # -- reading

    def __aiter__(self) -> RecordLoop[ReadKey, ReadValue]:
        return RecordLoop(self._reader, self)

    def batches(
        self, max: int = 500, timeout_s: float = 0.5, **unknown: Never
    ) -> BatchLoop[ReadKey, ReadValue]:
        """Iterate over batches of at most `max` records, each gathered for at most `timeout_s` from
        its first record on, never empty. A batch is finished when the loop's body has ended."""
        refuse_unknown("batches()", unknown, ("max", "timeout_s"))
        if max < 1 or timeout_s < 0:
            raise ValueError("a batch has at least one record, and time does not run backwards")
        return BatchLoop(self._reader, self, max, timeout_s)

    async def poll(self, timeout_s: float) -> Record[ReadKey, ReadValue] | None:
        """Return the next record, or None if none comes in time. Finish the records that the caller
        got before from poll() or take()."""
        records = await self._reader.taker().take(1, timeout_s)
        return records[0] if records else None

    async def take(
        self, max: int, timeout_s: float = 0.5, **unknown: Never
    ) -> list[Record[ReadKey, ReadValue]]:
        """Return up to `max` records that come within `timeout_s`. Finish the records that the
        caller got before from poll() or take(). Raise AllBrokersDown where no broker has ever
        answered and nothing listens."""
        refuse_unknown("take()", unknown, ("max", "timeout_s"))
        return list(await self._reader.taker().take(max, timeout_s, needs_listener=True))

    # -- operations.py has the rest

    subscribe = awaited(ConsumerOperations.subscribe)
    assign = awaited(ConsumerOperations.assign)
    unsubscribe = awaited(ConsumerOperations.unsubscribe)
    commit = awaited(ConsumerOperations.commit)
    seek = awaited(ConsumerOperations.seek)
    rewind = awaited(ConsumerOperations.rewind)
    pause = awaited(ConsumerOperations.pause)
    resume = awaited(ConsumerOperations.resume)
    paused = awaited(ConsumerOperations.paused)
    position = awaited(ConsumerOperations.position)
    committed = awaited(ConsumerOperations.committed)
    lag = awaited(ConsumerOperations.lag)
    watermarks = awaited(ConsumerOperations.watermarks)
    offsets_for_times = awaited(ConsumerOperations.offsets_for_times)
