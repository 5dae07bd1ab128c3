"""Operations that wait for the polling thread or a broker, written once for both faces.

An operation is a generator. Each step yields a future, and the driver sends its result back. The
asyncio face awaits the futures, the blocking face waits for them. Both open the consumer first.
"""

import inspect
import time
from collections.abc import Callable, Collection, Generator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, get_args

from penstock.client.consumer.assignment.resolved_config import PlaceLike, Position, Subscription
from penstock.client.consumer.engine.core import Committable, ConsumerCore
from penstock.client.consumer.engine.engine import forward_failure
from penstock.client.consumer.loops.outstanding_polls import OutstandingPolls
from penstock.client.consumer.offsets.committing import no_group_error
from penstock.client.consumer.offsets.offset_lookup import (
    EARLIEST,
    LATEST,
    check,
    committed_offsets,
    first_offsets_after,
    milliseconds,
    offsets_at,
    resolve,
)
from penstock.client.consumer.offsets.offset_tracker import PartitionKey
from penstock.client.failures import TimedOut
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer

T = TypeVar("T")

UNSUBSCRIBED_LOOK_S = 0.01


class Wait(NamedTuple):
    """A future with its time limit, and the name of its operation for an error."""

    future: "Future[Any]"
    limit_s: float
    name: str


OperationSteps: TypeAlias = Generator[Wait, Any, T]


def describe_as(call: Callable[..., object], operation: Callable[..., object]) -> None:
    """Give a method of a face the name, the docstring and the arguments of its operation."""
    update_wrapper(call, operation)
    signature = inspect.signature(operation)
    _wait, _sent, result = get_args(signature.return_annotation)
    call.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]


class ConsumerOperations:
    """The operations of one consumer; `timeout_s` is default.api.timeout.ms unless given."""

    def __init__(
        self,
        core: ConsumerCore[Any, Any],
        polls: OutstandingPolls[Any],
        caller: Callable[[], object],
    ) -> None:
        """Keep the core and its outstanding polls. `caller` returns the task or thread that runs
        now."""
        self._core = core
        self._config = core.config
        self._polls = polls
        self._caller = caller

    # -- subscriptions

    def read_first(self) -> OperationSteps[None]:
        """Read from the subscription of the constructor, if there is one."""
        if self._core.first:
            yield from self._read_from(self._core.first, None)

    def subscribe(
        self,
        topics: Collection[str] | None = None,
        *,
        pattern: str | None = None,
        timeout_s: float | None = None,
    ) -> OperationSteps[None]:
        """Replace the subscription by these topics, shared with the group."""
        yield from self._read_from(self._config.subscription(topics, pattern, None), timeout_s)

    def assign(
        self,
        places: Mapping[TopicPartition, Position | None],
        *,
        timeout_s: float | None = None,
    ) -> OperationSteps[None]:
        """Replace the subscription by these partitions, each from a position or (None) from the
        group's committed offset."""
        yield from self._read_from(self._config.subscription(None, None, places), timeout_s)

    def unsubscribe(self, *, timeout_s: float | None = None) -> OperationSteps[None]:
        """End the subscription; the group gives the partitions to other members."""
        limit_s = self._core.limit(timeout_s)
        until = time.monotonic() + limit_s
        yield from self._read_from(Subscription(), timeout_s, "unsubscribe")
        while self._core.shared.places:  # revoked at the next poll, after their bodies
            if time.monotonic() > until:
                raise TimedOut(f"the partitions were not given up within {limit_s:g} s")
            looked = self._core.shared.submit_later(UNSUBSCRIBED_LOOK_S, lambda: None)
            yield Wait(looked, limit_s, "unsubscribe")

    def _read_from(
        self, subscription: Subscription, timeout_s: float | None, name: str = "to subscribe"
    ) -> OperationSteps[None]:
        starts = yield from self._resolve(subscription.places, timeout_s)
        self._core.reads = bool(subscription)
        engine = self._core.engine
        yield from self._order(lambda: engine.subscribe(subscription, starts), timeout_s, name)

    def _resolve(
        self, wanted: Mapping[PartitionKey, Position | None], timeout_s: float | None
    ) -> OperationSteps[dict[PartitionKey, int | None]]:
        """Return positions as offsets. None stays None if the group has committed offsets; without
        a group it becomes what auto.offset.reset says."""
        default = None if self._config.group is not None else self._reset_position()
        said: dict[PartitionKey, Position] = {}
        for place, given in wanted.items():
            position = default if given is None else given
            if position is not None:
                said[place] = position
        found: dict[PartitionKey, int | None] = dict.fromkeys(wanted)
        if said:
            found |= yield from self._ask(
                lambda rdkafka, left_s: resolve(rdkafka, said, left_s), timeout_s, "offsets"
            )
        return found

    def _reset_position(self) -> Position | None:
        match self._config.offset_reset:
            case "earliest":
                return "start"
            case "latest":
                return "end"
            case ("by_duration", int(duration_ms)):
                return datetime.now(UTC) - timedelta(milliseconds=duration_ms)
        return None

    # -- commits

    def commit(
        self, offsets: Committable = None, *, timeout_s: float | None = None
    ) -> OperationSteps[dict[TopicPartition, int]]:
        """Commit a record, a batch, offsets, or else all finished records and the caller's records
        in flight: those of the loop this task or thread is in, or of its last poll() or take().
        Committed records count as finished. Return the committed offsets."""
        core, limit_s = self._core, self._core.limit(timeout_s)
        if offsets is None:
            with core.shared.lock:
                self._polls.finish_of(self._caller())
                core.finish_of(self._caller())
        wanted = core.to_commit(offsets)
        if wanted:
            future: Future[None] = Future()
            engine = core.engine
            order = core.shared.submit(
                lambda: engine.committer.request(engine.rdkafka, wanted, limit_s, future)
            )
            forward_failure(order, future)
            yield Wait(future, limit_s, "the commit")
        core.converter.notify_interceptors()
        return core.without_namespace(wanted)

    # -- moving

    def seek(
        self, place: PlaceLike, to: Position, *, timeout_s: float | None = None
    ) -> OperationSteps[None]:
        """Read a partition on from an offset, a moment, "start" or "end"."""
        yield from self.rewind(to, place, timeout_s=timeout_s)

    def rewind(
        self, to: Position, *places: PlaceLike, timeout_s: float | None = None
    ) -> OperationSteps[None]:
        """Seek the named partitions, or all that are assigned."""
        check(to)
        found = yield from self._resolve(dict.fromkeys(self._named(places), to), timeout_s)
        offsets = {place: offset for place, offset in found.items() if offset is not None}
        partitions = self._core.engine.partitions
        yield from self._order(lambda: partitions.move(offsets), timeout_s, "the seek")

    def pause(self, *places: PlaceLike, timeout_s: float | None = None) -> OperationSteps[None]:
        """Stop the named partitions, or all, until resume() or a revocation."""
        named, partitions = self._named(places), self._core.engine.partitions
        yield from self._order(lambda: partitions.pause(named), timeout_s, "the pause")

    def resume(self, *places: PlaceLike, timeout_s: float | None = None) -> OperationSteps[None]:
        """Read the named partitions again, or all, from their positions."""
        named, partitions = self._named(places), self._core.engine.partitions
        yield from self._order(lambda: partitions.resume(named), timeout_s, "the resume")

    def paused(self, *, timeout_s: float | None = None) -> OperationSteps[list[TopicPartition]]:
        """Return the partitions that pause() has stopped."""
        partitions = self._core.engine.partitions
        found = yield from self._order(lambda: partitions.paused, timeout_s, "the question")
        return [self._config.without_namespace(each) for each in found]

    # -- positions

    def position(
        self, place: PlaceLike, *, timeout_s: float | None = None
    ) -> OperationSteps[int | None]:
        """Return the offset of the next record to read, not counting fetched and unread ones. None
        if only the next record will tell (auto.offset.reset=none)."""
        at = self._core.place(place)
        known = self._core.known_position(at)
        if known is not None:
            return known

        def ask(rdkafka: "RdkafkaConsumer", left_s: float) -> int | None:
            if self._config.group is not None:
                offset = committed_offsets(rdkafka, [at], left_s)[at]
                if offset is not None:
                    return offset
            reset = self._reset_position()
            return None if reset is None else resolve(rdkafka, {at: reset}, left_s)[at]

        return (yield from self._ask(ask, timeout_s, "the position"))

    def committed(
        self, *places: PlaceLike, timeout_s: float | None = None
    ) -> OperationSteps[dict[TopicPartition, int | None]]:
        """Return the committed offsets of the group; None where the group has none."""
        if self._config.group is None:
            raise no_group_error()
        named = self._named(places)
        found = yield from self._ask(
            lambda rdkafka, left_s: committed_offsets(rdkafka, named, left_s), timeout_s
        )
        return self._core.without_namespace(found)

    def lag(self, *, timeout_s: float | None = None) -> OperationSteps[dict[TopicPartition, int]]:
        """Return how many offsets each assigned partition is behind its end."""
        asked = dict.fromkeys(self._core.shared.places, LATEST)
        ends = yield from self._ask(
            lambda rdkafka, left_s: offsets_at(rdkafka, asked, left_s) if asked else {}, timeout_s
        )
        positions = {place: self._core.known_position(place) for place in ends}
        return self._core.without_namespace(
            {place: max(0, ends[place] - at) for place, at in positions.items() if at is not None}
        )

    def watermarks(
        self, place: PlaceLike, *, timeout_s: float | None = None
    ) -> OperationSteps[tuple[int, int]]:
        """Return the first offset and the end offset; with read_committed the end is the last
        stable offset."""
        at = self._core.place(place)
        return (
            yield from self._ask(
                lambda rdkafka, left_s: (
                    offsets_at(rdkafka, {at: EARLIEST}, left_s)[at],
                    offsets_at(rdkafka, {at: LATEST}, left_s)[at],
                ),
                timeout_s,
            )
        )

    def offsets_for_times(
        self,
        moments: Mapping[TopicPartition, datetime | int],
        *,
        timeout_s: float | None = None,
    ) -> OperationSteps[dict[TopicPartition, int | None]]:
        """Return the first offsets at or after moments (datetimes, or milliseconds since 1970)."""
        asked = {
            self._core.place(place): milliseconds(at) if isinstance(at, datetime) else at
            for place, at in moments.items()
        }
        found = yield from self._ask(
            lambda rdkafka, left_s: first_offsets_after(rdkafka, asked, left_s), timeout_s
        )
        return self._core.without_namespace(found)

    # -- inside

    def _named(self, places: Collection[PlaceLike]) -> list[PartitionKey]:
        """Return the named partitions, or all assigned ones."""
        return [self._core.place(each) for each in places] if places else self._core.shared.places

    def _ask(
        self,
        question: "Callable[[RdkafkaConsumer, float], T]",
        timeout_s: float | None,
        name: str = "the question",
    ) -> OperationSteps[T]:
        """Ask the brokers."""
        limit_s = self._core.limit(timeout_s)
        answer: T = yield Wait(self._core.engine.ask(question, limit_s), limit_s, name)
        return answer

    def _order(
        self, call: Callable[[], T], timeout_s: float | None, name: str
    ) -> OperationSteps[T]:
        """Run a call on the polling thread."""
        answer: T = yield Wait(self._core.shared.submit(call), self._core.limit(timeout_s), name)
        return answer
