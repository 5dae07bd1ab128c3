"""Operators by key, on Spark's transformWithState.

Rows of one key come together, those of one micro-batch at once. They are sorted here, since Spark's
shuffle keeps no order.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)
from pyspark.sql.types import DataType, Row, StructField, StructType

from penstock.streams.processors import Context, Processor
from penstock.streams.rows import row_maker
from penstock.streams.topology import Make, RecordShape
from penstock.streams.worker_imports import Shipped

LEFT_SIDE, RIGHT_SIDE = 0, 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(value: datetime | None) -> datetime | None:
    """Return a time in UTC; Spark gives local times without a zone."""
    return None if value is None else value.astimezone(UTC)


class StreamTableJoin(StatefulProcessor):
    """Keeps the table's value for rows of the stream. Table rows come first within a batch."""

    def __init__(self, value: StructType, keep_unmatched: bool) -> None:
        self._type, self._keep_unmatched = value, keep_unmatched

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._table: ValueState = handle.getValueState("table", self._type)

    def handleInputRows(
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[Row]:
        mine = sorted(rows, key=lambda row: (-row["_side"], row["_order"]))
        changes = [row for row in mine if row["_side"] == RIGHT_SIDE]
        if changes:
            _store(self._table, changes[-1]["right"])
        held = self._table.get()
        right = None if held is None else held[0]
        if right is None and not self._keep_unmatched:
            return
        for row in mine[len(changes) :]:
            yield Row(
                key=row["key"], value=row["value"], right=right, timestamp=utc(row["timestamp"])
            )

    def close(self) -> None:
        pass


class TableTableJoin(StatefulProcessor):
    """Keeps both values; a change of either gives the new result, or null without one."""

    def __init__(self, left: StructType, right: StructType, needs_left: bool, needs_right: bool):
        self._types = (left, right)
        self._needs = (needs_left, needs_right)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._left = handle.getValueState("left", self._types[0])
        self._right = handle.getValueState("right", self._types[1])

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002
    ) -> Iterator[Row]:
        had = self._result()
        newest: dict[int, Any] = {}
        for row in rows:
            last = newest.get(row["_side"])
            if last is None or row["_order"] >= last["_order"]:
                newest[row["_side"]] = row
        if LEFT_SIDE in newest:
            _store(self._left, newest[LEFT_SIDE]["value"])
        if RIGHT_SIDE in newest:
            _store(self._right, newest[RIGHT_SIDE]["right"])
        has = self._result()
        if has is None and had is None:
            return
        times = [time for row in newest.values() if (time := utc(row["timestamp"])) is not None]
        left, right = (None, None) if has is None else has
        yield Row(
            key=key[0],
            value=left,
            right=right,
            timestamp=max(times, default=EPOCH),
            deleted=has is None,
        )

    def _result(self) -> tuple[Any, Any] | None:
        left, right = self._left.get(), self._right.get()
        needs_left, needs_right = self._needs
        if (needs_left and left is None) or (needs_right and right is None):
            return None
        if left is None and right is None:
            return None
        return (None if left is None else left[0], None if right is None else right[0])

    def close(self) -> None:
        pass


def _store(state: ValueState, value: Any) -> None:
    """Store a value; None deletes."""
    if value is None:
        state.clear()
    else:
        state.update((value,))


class Reduce(StatefulProcessor):
    """Folds the values of a key. With a window (the rest of the key) a timer ends it."""

    def __init__(
        self,
        value: StructType,
        function: Callable[[Any, Any], Any],
        make: Make | None,
        final: bool,
        windowed: bool,
    ) -> None:
        self._type, self._shipped = value, Shipped((function, make))
        self._final, self._windowed = final, windowed

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._make = row_maker(self._type.fields[0].dataType)
        self._function, make = self._shipped.what
        self._read = make or self._make
        self._value: ValueState = handle.getValueState("value", self._type)

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Row]:
        held = self._value.get()
        value = None if held is None else self._make(held[0])
        timestamp = None
        for row in sorted(rows, key=lambda row: row["_order"]):
            if row["value"] is None:
                continue
            value = self._make(row["value"] if value is None else self._folded(value, row["value"]))
            timestamp = utc(row["timestamp"])
        if value is None:
            return
        self._value.update((value,))
        if not self._final:
            yield self._row(key, value, timestamp)
        if self._windowed and held is None:
            end_ms = int(key[2].timestamp() * 1000)
            self._handle.registerTimer(max(end_ms, timerValues.getCurrentWatermarkInMs() + 1))

    def _folded(self, so_far: Any, value: Any) -> Any:
        return self._function(self._read(so_far), self._read(value))

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: ARG002
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        held = self._value.get()
        self._value.clear()
        if self._final and held is not None:
            # Not older than the watermark that fired the timer.
            at = datetime.fromtimestamp(expiredTimerInfo.getExpiryTimeInMs() / 1000, UTC)
            yield self._row(key, held[0], at)

    def _row(self, key: Any, value: Any, timestamp: datetime | None) -> Row:
        start, end = (utc(key[1]), utc(key[2])) if self._windowed else (None, None)
        return Row(
            key=key[0],
            value=value,
            window_start=start,
            window_end=end,
            timestamp=timestamp,
        )

    def close(self) -> None:
        pass


class UserProcessor(StatefulProcessor):
    """Runs a Processor of the user."""

    def __init__(
        self,
        processor: Processor[Any, Any, Any],
        before: RecordShape,
        given: DataType,
        value: DataType,
    ) -> None:
        """Pack a processor for Spark's workers. `before` makes its arguments from keys and from
        values of the type `given`."""
        self._shipped = Shipped((processor, before.make_key, before.make_value))
        self._given, self._type = given, value

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._processor, make_key, make_value = self._shipped.what
        self._read_key = make_key or _same
        self._read = make_value or row_maker(self._given)
        self._make = row_maker(self._type)
        slots = self._processor.slots()
        self._processor.__dict__["_states"] = {slot.name: slot.open(handle) for slot in slots}
        self._processor.open()

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Row]:
        context = Context(self._handle, timerValues)
        given_key = self._read_key(key[0])
        for row in sorted(rows, key=lambda row: row["_order"]):
            context.timestamp = utc(row["timestamp"])
            given = self._read(row["value"])
            for value in self._processor.process(given_key, given, context) or ():
                yield Row(key=key[0], value=self._make(value), timestamp=context.timestamp)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        context = Context(self._handle, timerValues)
        at = datetime.fromtimestamp(expiredTimerInfo.getExpiryTimeInMs() / 1000, UTC)
        for value in self._processor.on_timer(self._read_key(key[0]), at, context) or ():
            # No row may be older than the watermark that fired the timer.
            yield Row(key=key[0], value=self._make(value), timestamp=max(at, context.watermark))

    def close(self) -> None:
        pass


def _same(value: Any) -> Any:
    return value


def alone(value: Any) -> StructType:
    """Return the structure of a state with one value."""
    return StructType([StructField("value", value)])
