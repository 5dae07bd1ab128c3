"""The blocking Consumer: the same names as asyncio's, without await.

    with Consumer(bootstrap="localhost:9092", group="billing", topics=["orders"]) as consumer:
        for record in consumer:
            ...

A record is finished when the loop's body has ended, that is, when the loop asks for the next
record. Only finished records are committed. A body that is left early (break, return, an exception)
leaves its record unfinished, and the next loop gets the record again. Call
`consumer.finish(record)` before a break to finish it.

A thread cannot be cancelled. A body that takes longer than handler.timeout.ms, or than
revoke.timeout.ms after its partition was revoked, is not committed, and the next step raises
HandlerTimedOut or PartitionsRevoked. Callbacks run on the consumer's own thread.
"""

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Never, ParamSpec, Self, TypeVar, Unpack, overload

from penstock.client.consumer.engine.app_adapter import ThreadAdapter
from penstock.client.consumer.engine.core import CLOSE_SECONDS, ConsumerCore
from penstock.client.consumer.engine.operations import (
    ConsumerOperations,
    OperationSteps,
    describe_as,
)
from penstock.client.consumer.face import ConsumerFace
from penstock.client.consumer.loops.blocking_loops import (
    BlockingBatchLoop,
    BlockingReader,
    BlockingRecordLoop,
)
from penstock.client.consumer.options import ConsumerOptions
from penstock.client.keywords import refuse_unknown
from penstock.client.records import ReadKey, ReadValue, Record
from penstock.client.runtime.interruption import INTERRUPTED_SECONDS_MAX, is_interruption
from penstock.client.serde.protocols import DeserializerLike, DeserializerOf
from penstock.client.settings import SettingValue

P = ParamSpec("P")
T = TypeVar("T")


def waited(
    operation: Callable[Concatenate[ConsumerOperations, P], OperationSteps[T]],
) -> Callable[Concatenate["Consumer[Any, Any]", P], T]:
    """Return an operation as a blocking method of the consumer."""

    def call(self: "Consumer[Any, Any]", /, *arguments: P.args, **named: P.kwargs) -> T:
        reader = self._reader
        return reader.run(operation(reader.operations, *arguments, **named))

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
        on_assigned, on_revoked, on_lost: functions that get the partitions
        interceptors: ConsumerInterceptors; namespace: a prefix of all topics and groups
        """
        adapter = ThreadAdapter()
        core: ConsumerCore[ReadKey, ReadValue] = ConsumerCore(
            settings, key, value, options, adapter
        )
        super().__init__(core, adapter.caller)
        self._reader = BlockingReader(core, adapter)

    # -- opening and closing

    def __enter__(self) -> Self:
        try:
            self._reader.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(INTERRUPTED_SECONDS_MAX if is_interruption(error) else CLOSE_SECONDS)

    def close(self, timeout_s: float = CLOSE_SECONDS) -> None:
        """Commit finished records, leave the group, and end, within the time. Bodies in other
        threads get the rest of the time, at most revoke.timeout.ms."""
        core = self._core
        if core.engine.forked_off:
            return  # the parent process closes it
        if core.engine.started:
            core.end(self, timeout_s, in_time=self._reader.close(timeout_s))
        core.closed = True

    # -- reading

    def __iter__(self) -> BlockingRecordLoop[ReadKey, ReadValue]:
        return BlockingRecordLoop(self._reader, self)

    def batches(
        self, max: int = 500, timeout_s: float = 0.5, **unknown: Never
    ) -> BlockingBatchLoop[ReadKey, ReadValue]:
        """Iterate over batches of at most `max` records, each gathered for at most `timeout_s` from
        its first record on, never empty. A batch is finished when the loop's body has ended."""
        refuse_unknown("batches()", unknown, ("max", "timeout_s"))
        if max < 1 or timeout_s < 0:
            raise ValueError("a batch has at least one record, and time does not run backwards")
        return BlockingBatchLoop(self._reader, self, max, timeout_s)

    def poll(self, timeout_s: float) -> Record[ReadKey, ReadValue] | None:
        """Return the next record, or None if none comes in time. Finish the records that the caller
        got before from poll() or take()."""
        records = self._reader.taker().take(1, timeout_s)
        return records[0] if records else None

    def take(
        self, max: int, timeout_s: float = 0.5, **unknown: Never
    ) -> list[Record[ReadKey, ReadValue]]:
        """Return up to `max` records that come within `timeout_s`. Finish the records that the
        caller got before from poll() or take(). Raise AllBrokersDown where no broker has ever
        answered and nothing listens."""
        refuse_unknown("take()", unknown, ("max", "timeout_s"))
        return list(self._reader.taker().take(max, timeout_s, needs_listener=True))

    # -- operations.py has the rest

    subscribe = waited(ConsumerOperations.subscribe)
    assign = waited(ConsumerOperations.assign)
    unsubscribe = waited(ConsumerOperations.unsubscribe)
    commit = waited(ConsumerOperations.commit)
    seek = waited(ConsumerOperations.seek)
    rewind = waited(ConsumerOperations.rewind)
    pause = waited(ConsumerOperations.pause)
    resume = waited(ConsumerOperations.resume)
    paused = waited(ConsumerOperations.paused)
    position = waited(ConsumerOperations.position)
    committed = waited(ConsumerOperations.committed)
    lag = waited(ConsumerOperations.lag)
    watermarks = waited(ConsumerOperations.watermarks)
    offsets_for_times = waited(ConsumerOperations.offsets_for_times)
