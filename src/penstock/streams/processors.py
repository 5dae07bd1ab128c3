"""`process`: a Python class with typed state, timers and a time to live.

    class Alarms(Processor[str, Reading, Alarm]):
        hot = value_state(int, ttl="1 hour")

        def process(self, key, value, context):
            times = (self.hot.get() or 0) + 1
            self.hot.set(times)
            if times == 3:
                yield Alarm(sensor=key, reason="hot")

State belongs to the key at hand. Its types are dataclasses, Python types or Spark's.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from pyspark.sql.types import StructField, StructType

from penstock.streams.durations import duration_ms
from penstock.streams.errors import StreamsError
from penstock.streams.rows import instance_maker, row_maker
from penstock.streams.schemas import all_nullable, spark_type

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

K = TypeVar("K")
V = TypeVar("V")
Out = TypeVar("Out")
T = TypeVar("T")
MapKey = TypeVar("MapKey")
ALONE = "value"  # the one column of a state that is no structure


class Typed:
    """A type as a Spark structure, with conversions both ways."""

    def __init__(self, of: Any) -> None:
        found = all_nullable(spark_type(of))
        self._alone = not isinstance(found, StructType)
        self.structure = (
            found if isinstance(found, StructType) else StructType([StructField(ALONE, found)])
        )
        self._names = self.structure.fieldNames()
        self._make = row_maker(found)
        self._instance = instance_maker(of) if isinstance(of, type) else _same

    def row(self, value: Any) -> tuple[Any, ...]:
        made = self._make(value)
        return (made,) if self._alone else tuple(made)

    def value(self, row: Any) -> Any:
        if self._alone:
            return row[0]
        named = self._make(dict(zip(self._names, row, strict=True)))
        return self._instance(named)


class _KeyedState:
    """The state of the key at hand, in Spark's form and in the user's."""

    def __init__(self, state: Any, *typed: Typed) -> None:
        self._state, self._typed = state, typed[-1]
        self._keys = typed[0]

    def clear(self) -> None:
        self._state.clear()


class ValueState(_KeyedState, Generic[T]):
    """One value per key."""

    def get(self) -> T | None:
        row = self._state.get()
        return None if row is None else self._typed.value(row)

    def set(self, value: T) -> None:
        self._state.update(self._typed.row(value))


class ListState(_KeyedState, Generic[T]):
    """A list per key."""

    def __iter__(self) -> Iterator[T]:
        return (self._typed.value(row) for row in self._state.get())

    def get(self) -> list[T]:
        return list(self)

    def append(self, value: T) -> None:
        self._state.appendValue(self._typed.row(value))

    def set(self, values: Iterable[T]) -> None:
        rows = [self._typed.row(each) for each in values]
        if rows:
            self._state.put(rows)
        else:
            self._state.clear()


class MapState(_KeyedState, Generic[MapKey, T]):
    """A dictionary per key."""

    def get(self, key: MapKey) -> T | None:
        row = self._state.getValue(self._keys.row(key))
        return None if row is None else self._typed.value(row)

    def set(self, key: MapKey, value: T) -> None:
        self._state.updateValue(self._keys.row(key), self._typed.row(value))

    def remove(self, key: MapKey) -> None:
        self._state.removeKey(self._keys.row(key))

    def items(self) -> Iterator[tuple[MapKey, T]]:
        for key, value in self._state.iterator():
            yield self._keys.value(key), self._typed.value(value)


class Slot(Generic[T]):
    """A state as a class declares it; an instance gets the state of the current key."""

    def __init__(self, kind: str, typed: tuple[Typed, ...], ttl: str | int | None) -> None:
        self.kind, self.typed = kind, typed
        self.ttl_ms = None if ttl is None else duration_ms(ttl, "ttl")
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "Slot[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "Slot[T] | T":
        if instance is None:
            return self
        states: dict[str, T] = instance.__dict__.get("_states", {})
        if self.name not in states:
            raise StreamsError(f"{self.name} is there only while records are processed")
        return states[self.name]

    def open(self, handle: "StatefulProcessorHandle") -> Any:
        kinds: dict[str, tuple[Any, Any]] = {
            "value": (ValueState[Any], handle.getValueState),
            "list": (ListState[Any], handle.getListState),
            "map": (MapState[Any, Any], handle.getMapState),
        }
        kind, opened = kinds[self.kind]
        structures = [each.structure for each in self.typed]
        return kind(opened(self.name, *structures, self.ttl_ms), *self.typed)


@overload
def value_state(of: type[T], *, ttl: str | int | None = None) -> Slot[ValueState[T]]: ...


@overload
def value_state(of: Any, *, ttl: str | int | None = None) -> Slot[ValueState[Any]]: ...


def value_state(of: Any, *, ttl: str | int | None = None) -> Any:
    """Declare one value per key; `ttl` deletes it that long after the last set."""
    return Slot[Any]("value", (Typed(of),), ttl)


@overload
def list_state(of: type[T], *, ttl: str | int | None = None) -> Slot[ListState[T]]: ...


@overload
def list_state(of: Any, *, ttl: str | int | None = None) -> Slot[ListState[Any]]: ...


def list_state(of: Any, *, ttl: str | int | None = None) -> Any:
    """Declare a list per key; each element has its own time to live."""
    return Slot[Any]("list", (Typed(of),), ttl)


@overload
def map_state(
    keys: type[MapKey], values: type[T], *, ttl: str | int | None = None
) -> Slot[MapState[MapKey, T]]: ...


@overload
def map_state(
    keys: Any, values: Any, *, ttl: str | int | None = None
) -> Slot[MapState[Any, Any]]: ...


def map_state(keys: Any, values: Any, *, ttl: str | int | None = None) -> Any:
    """Declare a dictionary per key."""
    return Slot[Any]("map", (Typed(keys), Typed(values)), ttl)


class Context:
    """The record's time, the clocks, and timers of the current key."""

    def __init__(self, handle: "StatefulProcessorHandle", times: Any) -> None:
        self._handle, self._times = handle, times
        self.timestamp: datetime | None = None  # of the record; None in a timer

    @property
    def watermark(self) -> datetime:
        """Return the watermark; no older record will come."""
        return _time(self._times.getCurrentWatermarkInMs())

    @property
    def now(self) -> datetime:
        """Return the start of this micro-batch by the wall clock."""
        return _time(self._times.getCurrentProcessingTimeInMs())

    def set_timer(self, at: datetime | int) -> None:
        """Call `on_timer` once the clock of `timers=` has passed this time. Other timers of the key
        stay."""
        self._handle.registerTimer(_time_ms(at))

    def cancel_timer(self, at: datetime | int) -> None:
        self._handle.deleteTimer(_time_ms(at))

    def timers(self) -> list[datetime]:
        return [_time(each) for each in self._handle.listTimers()]


class Processor(Generic[K, V, Out]):
    """Override `process`, and `on_timer` if it sets timers. Yield values; they keep the key."""

    def open(self) -> None:
        """Prepare the processor: called once per worker, before the first record."""

    def process(self, key: K, value: V, context: Context) -> Iterable[Out]:
        raise NotImplementedError(f"{type(self).__name__} needs process(key, value, context)")

    def on_timer(self, key: K, at: datetime, context: Context) -> Iterable[Out]:  # noqa: ARG002
        return ()

    @classmethod
    def slots(cls) -> list[Slot[Any]]:
        found: dict[str, Slot[Any]] = {}
        for each in reversed(cls.__mro__):
            found |= {name: slot for name, slot in vars(each).items() if isinstance(slot, Slot)}
        return list(found.values())


def _same(value: Any) -> Any:
    return value


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(max(at_ms, 0) / 1000, UTC)


def _time_ms(at: datetime | int) -> int:
    return at if isinstance(at, int) else int(at.timestamp() * 1000)
