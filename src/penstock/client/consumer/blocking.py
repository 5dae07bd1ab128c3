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

import threading
import time
import warnings
from collections.abc import Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Never, Self, Unpack, overload

from penstock.client.consumer.assignment.resolved_config import PlaceLike, Position, Subscription
from penstock.client.consumer.engine.core import CLOSE_SECONDS, Committable, ConsumerCore
from penstock.client.consumer.loops.blocking_loops import (
    BlockingBatch,
    BlockingBatchLoop,
    BlockingReader,
    BlockingRecordLoop,
    ThreadAdapter,
)
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
        on_assigned, on_revoked, on_lost: functions that get the partitions
        interceptors: ConsumerInterceptors; namespace: a prefix of all topics and groups
        """
        self._adapter = ThreadAdapter()
        self._core: ConsumerCore[K, V] = ConsumerCore(settings, key, value, options, self._adapter)
        self._reader: BlockingReader[K, V] = BlockingReader(self._core, self._adapter)
        self.namespace: Namespace = self._core.config.namespace

    # -- opening and closing

    def __enter__(self) -> Self:
        try:
            self._reader.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self, timeout_s: float = CLOSE_SECONDS) -> None:
        """Commit finished records, leave the group, and end, within the time. Bodies in other
        threads get the rest of the time, at most revoke.timeout.ms."""
        core = self._core
        if core.engine.forked_off:
            return  # the parent process closes it
        if core.engine.started:
            core.end(self, timeout_s, in_time=self._reader.close(timeout_s))
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

    def __iter__(self) -> BlockingRecordLoop[K, V]:
        return BlockingRecordLoop(self._reader, self)

    def batches(
        self, max: int = 500, timeout_s: float = 0.5, **unknown: Never
    ) -> BlockingBatchLoop[K, V]:
        """Iterate over batches of at most `max` records, each gathered for at most `timeout_s` from
        its first record on, never empty. A batch is finished when the loop's body has ended."""
        refuse_unknown("batches()", unknown, ("max", "timeout_s"))
        if max < 1 or timeout_s < 0:
            raise ValueError("a batch has at least one record, and time does not run backwards")
        return BlockingBatchLoop(self._reader, self, max, timeout_s)

    def poll(self, timeout_s: float) -> Record[K, V] | None:
        """Return the next record, or None if none comes in time. Finish the records that the caller
        got before from poll() or take()."""
        return self._reader.taker().take(1, timeout_s, _first)

    def take(self, max: int, timeout_s: float = 0.5, **unknown: Never) -> list[Record[K, V]]:
        """Return up to `max` records that come within `timeout_s`. Finish the records that the
        caller got before from poll() or take()."""
        refuse_unknown("take()", unknown, ("max", "timeout_s"))
        return self._reader.taker().take(max, timeout_s, list)

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

    def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        pattern: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Replace the subscription by these topics, shared with the group."""
        self._reader.open()
        subscription = self._core.config.subscription(topics, pattern, None)
        self._reader.read_from(subscription, timeout_s)

    def assign(
        self,
        places: Mapping[TopicPartition, Position | None],
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Replace the subscription by these partitions, each from a position or (None) from the
        group's committed offset."""
        self._reader.open()
        self._reader.read_from(self._core.config.subscription(None, None, places), timeout_s)

    def unsubscribe(self, *, timeout_s: float | None = None) -> None:
        """End the subscription; the group gives the partitions to other members."""
        self._reader.open()
        limit = self._core.limit(timeout_s)
        until = time.monotonic() + limit
        self._reader.wait(self._core.read_from(Subscription(), {}), limit, "unsubscribe")
        while self._core.places():  # revoked at the next poll, after their bodies
            if time.monotonic() > until:
                raise TimedOut(f"the partitions were not given up within {limit:g} s")
            time.sleep(UNSUBSCRIBED_LOOK_S)

    # -- commits

    def commit(
        self, offsets: Committable = None, *, timeout_s: float | None = None
    ) -> Mapping[TopicPartition, int]:
        """Commit a record, a batch, offsets, or else all finished records and the caller's records
        in flight: those of the loop this thread is in, or of its last poll() or take(). Committed
        records count as finished. Return the committed offsets."""
        self._reader.open()
        limit = self._core.limit(timeout_s)
        if offsets is None:
            with self._reader.shared.lock:
                self._reader.polls.finish_of(threading.current_thread())
                self._core.finish_of(threading.current_thread())
        wanted = self._core.to_commit(offsets)
        self._reader.wait(self._core.commit(wanted, limit), limit, "the commit")
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
        caller = threading.current_thread()
        offsets = self._core.leave_to_transactions(caller, taker, said, of_records)
        return self._core.without_namespace(offsets)

    def transaction_ended(self, taker: object, offsets: Mapping[TopicPartition, int], /) -> None:
        """Serve Producer.send_offsets: finish all records below these offsets."""
        self._core.transaction_ended(taker, offsets)

    def group_metadata(self) -> object:
        """Return librdkafka's description of this member, for a transaction."""
        return self._core.group_metadata()

    # -- moving

    def seek(self, place: PlaceLike, to: Position, *, timeout_s: float | None = None) -> None:
        """Read a partition on from an offset, a moment, "start" or "end"."""
        self._move(to, [place], timeout_s)

    def rewind(self, to: Position, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Seek the named partitions, or all that are assigned."""
        self._move(to, places, timeout_s)

    def _move(self, to: Position, places: Collection[PlaceLike], timeout_s: float | None) -> None:
        self._reader.open()
        core, limit = self._core, self._core.limit(timeout_s)
        wanted = core.targets(to, places)
        offsets = self._reader.wait(core.resolve(wanted, limit), limit, "offsets")
        self._reader.wait(core.move(offsets), limit, "the seek")

    def pause(self, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Stop the named partitions, or all, until resume() or a revocation."""
        self._reader.ask(lambda _: self._core.pause(places), timeout_s, "the pause")

    def resume(self, *places: PlaceLike, timeout_s: float | None = None) -> None:
        """Read the named partitions again, or all, from their positions."""
        self._reader.ask(lambda _: self._core.resume(places), timeout_s, "the resume")

    def paused(self, *, timeout_s: float | None = None) -> list[TopicPartition]:
        """Return the partitions that pause() has stopped."""
        return self._reader.ask(lambda _: self._core.paused(), timeout_s, "the question")

    # -- positions

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that this consumer reads now."""
        self._core.engine.check()
        return tuple(self._core.config.without_namespace(place) for place in self._core.places())

    def position(self, place: PlaceLike, *, timeout_s: float | None = None) -> int | None:
        """Return the offset of the next record to read, not counting fetched and unread ones. None
        if only the next record will tell (auto.offset.reset=none)."""
        self._reader.open()
        at = self._core.place(place)
        known = self._core.known_position(at)
        if known is not None:
            return known
        return self._reader.ask(
            lambda limit_s: self._core.ask_position(at, limit_s), timeout_s, "the position"
        )

    def committed(
        self, *places: PlaceLike, timeout_s: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the committed offsets of the group; None where the group has none."""
        return self._reader.ask(
            lambda limit_s: self._core.committed(places, limit_s), timeout_s, "the question"
        )

    def lag(self, *, timeout_s: float | None = None) -> dict[TopicPartition, int]:
        """Return how many offsets each assigned partition is behind its end."""
        return self._reader.ask(self._core.lag, timeout_s, "the question")

    def watermarks(self, place: PlaceLike, *, timeout_s: float | None = None) -> tuple[int, int]:
        """Return the first offset and the end offset; with read_committed the end is the last
        stable offset."""
        return self._reader.ask(
            lambda limit_s: self._core.watermarks(place, limit_s), timeout_s, "the question"
        )

    def offsets_for_times(
        self,
        moments: Mapping[TopicPartition, datetime | int],
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, int | None]:
        """Return the first offsets at or after moments (datetimes, or milliseconds since 1970)."""
        return self._reader.ask(
            lambda limit_s: self._core.offsets_for_times(moments, limit_s),
            timeout_s,
            "the question",
        )


def _first(batch: BlockingBatch[K, V]) -> Record[K, V] | None:
    return batch[0] if batch else None
