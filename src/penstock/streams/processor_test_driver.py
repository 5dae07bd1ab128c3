"""A test driver of one processor, through PySpark's own tester: no query runs."""

import datetime
from typing import Any

from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import DataType, Row

from penstock.streams.compilation.keyed import UserProcessor
from penstock.streams.durations import advance_of
from penstock.streams.errors import StreamsError
from penstock.streams.processors import Typed
from penstock.streams.topology import Processed, TimeMode

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class ProcessorTestDriver:
    """A driver of one processor: `test.processor("alarms")`. Send records, advance time, read the
    state.

    Only `advance` moves time; records do not. A time to live is not counted.
    """

    def __init__(self, node: Processed, given: DataType) -> None:
        self._node, self._now = node, START
        extractor = _time_ms if node.time_mode is TimeMode.EVENT else None
        self._tester = TwsTester(
            UserProcessor(node.processor, node.parents[0].shape, given, node.value_type),
            timeMode=node.time_mode.value,
            eventTimeExtractor=extractor,
        )
        self._set_time()

    def send(self, key: Any, value: Any, at: datetime.datetime | None = None) -> list[Any]:
        """Return the processor's results for one record."""
        time = at or self._now
        order = int(time.timestamp() * 1_000_000)
        row = Row(key=key, value=value, timestamp=time, _order=order)
        return _values(self._tester.test(key, [row]))

    def advance(self, by: str) -> list[Any]:
        """Advance the clock of the timers. Return the results of the timers that fire."""
        self._now += advance_of(by)
        return _values(self._set_time())

    def state(self, name: str, key: Any) -> Any:
        """Return the state of a key: a value, a list or a dict."""
        slot = {each.name: each for each in self._node.processor.slots()}.get(name)
        if slot is None:
            raise StreamsError(f"the processor has no state {name}")
        typed: tuple[Typed, ...] = slot.typed
        match slot.kind:
            case "list":
                return [typed[0].value(each) for each in self._tester.peekListState(name, key)]
            case "map":
                held = self._tester.peekMapState(name, key)
                return {typed[0].value(one): typed[1].value(two) for one, two in held.items()}
            case _:
                row = self._tester.peekValueState(name, key)
                return None if row is None else typed[0].value(row)

    def _set_time(self) -> list[Any]:
        now_ms = int(self._now.timestamp() * 1000)
        match self._node.time_mode:
            case TimeMode.EVENT:
                return list(self._tester.setWatermark(now_ms))
            case TimeMode.WALL:
                return list(self._tester.setProcessingTime(now_ms))
            case _:
                return []


def _time_ms(row: Row) -> int:
    # A record at the very time of the watermark is not late here: tests write one after the other.
    return int(row["timestamp"].timestamp() * 1000) + 1


def _values(rows: list[Any]) -> list[Any]:
    return [row["value"] for row in rows]
