"""Describes how records differ from the expected ones: missing, unexpected, out of order."""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.client.records import Record

SHOWN_MAX = 20  # lines of each kind
VALUE_CHARACTERS_MAX = 120


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences, one line each. `expected` and `found` count records."""

    expected: int
    found: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    out_of_order: tuple[str, ...]

    @property
    def may_still_come(self) -> bool:
        """Return whether more records could resolve the difference."""
        return bool(self.missing)

    def __str__(self) -> str:
        kinds = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "out of order": self.out_of_order,
        }
        counts = ", ".join(f"{len(lines)} {kind}" for kind, lines in kinds.items() if lines)
        lines_shown = [f"{counts} ({self.expected} expected, {self.found} found)"]
        for kind, lines in kinds.items():
            lines_shown += [f"  {kind:12} {line}" for line in lines[:SHOWN_MAX]]
            if len(lines) > SHOWN_MAX:
                lines_shown.append(f"  {kind:12} ... and {len(lines) - SHOWN_MAX} more")
        return "\n".join(lines_shown)


@dataclass(frozen=True, slots=True)
class Expected:
    """One expected record: a value, or a pair of key and value."""

    value: Any
    key: Any = None
    keyed: bool = False

    @classmethod
    def of(cls, value: object) -> "Expected":
        if isinstance(value, tuple) and len(value) == 2:
            return cls(_as_read(value[1]), _as_read(value[0]), keyed=True)
        return cls(_as_read(value))

    def matches(self, record: Record[Any, Any]) -> bool:
        if not _same(self.value, record.value):
            return False
        return not self.keyed or _same(self.key, record.key)

    def __str__(self) -> str:
        return _content(self.key, self.value, keyed=self.keyed)


def difference(
    found: Sequence[Record[Any, Any]], expected: Sequence[object], *, in_order: bool = True
) -> Difference | None:
    """Return None if all is as expected. `found` is in order within each partition."""
    wanted = [Expected.of(each) for each in expected]
    indexes = _matched(found, wanted)
    taken = set(indexes.values())
    missing = tuple(f"#{n} {each}" for n, each in enumerate(wanted) if n not in taken)
    unexpected = tuple(_shown(each) for n, each in enumerate(found) if n not in indexes)
    disordered = _disordered(found, wanted, indexes) if in_order else ()
    if not missing and not unexpected and not disordered:
        return None
    return Difference(len(wanted), len(found), missing, unexpected, disordered)


def _matched(found: Sequence[Record[Any, Any]], wanted: Sequence[Expected]) -> dict[int, int]:
    """Map the index of each expected record found to its index in `wanted`: equal ones in their
    order."""
    kinds: dict[str, deque[int]] = defaultdict(deque)
    for number, each in enumerate(wanted):
        kinds[repr(each.value)].append(number)
    matched: dict[int, int] = {}
    for number, record in enumerate(found):
        waiting = kinds.get(repr(_as_read(record.value)), deque())
        index = next((each for each in waiting if wanted[each].matches(record)), None)
        if index is None:  # equal values may have different texts: 1 and 1.0
            rest = (each for queue in kinds.values() for each in queue)
            index = next((each for each in rest if wanted[each].matches(record)), None)
        if index is not None:
            matched[number] = index
            kinds[repr(wanted[index].value)].remove(index)
    return matched


def _disordered(
    found: Sequence[Record[Any, Any]], wanted: Sequence[Expected], indexes: dict[int, int]
) -> tuple[str, ...]:
    """Return the records outside the longest ordered part of their partition. Equal records of two
    partitions are indistinguishable: they count in one partition only."""
    by_partition: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, record in enumerate(found):
        if number in indexes:
            by_partition[(record.topic, record.partition)].append(number)
    if len(by_partition) > 1:
        often = Counter(map(str, wanted))
        for partition, numbers in by_partition.items():
            by_partition[partition] = [
                each for each in numbers if often[str(wanted[indexes[each]])] == 1
            ]
    lines_shown = []
    for numbers in by_partition.values():
        kept = _longest_rise([indexes[each] for each in numbers])
        for index, number in enumerate(numbers):
            if index not in kept:
                lines_shown.append(f"{_shown(found[number])} was expected as #{indexes[number]}")
    return tuple(lines_shown)


def _longest_rise(values: Sequence[int]) -> set[int]:
    """Return the indexes of a longest increasing subsequence."""
    ends: list[int] = []  # the smallest last value of a subsequence, by its length
    at: list[int] = []  # the index of that value
    before: list[int | None] = []
    for index, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(at[length - 1] if length else None)
        if length == len(ends):
            ends.append(value)
            at.append(index)
        else:
            ends[length], at[length] = value, index
    kept: set[int] = set()
    step = at[-1] if at else None
    while step is not None:
        kept.add(step)
        step = before[step]
    return kept


def _as_read(value: Any) -> Any:
    """Return text as its bytes."""
    return value.encode() if isinstance(value, str) else value


def _same(expected: Any, found: Any) -> bool:
    return bool(expected == _as_read(found))


def _shown(record: Record[Any, Any]) -> str:
    content = _content(record.key, record.value, keyed=record.key is not None)
    return f"{record.place}@{record.offset} {content}"


def _content(key: Any, value: Any, *, keyed: bool) -> str:
    return f"key {_short(key)} value {_short(value)}" if keyed else _short(value)


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text
    return f"{text[:VALUE_CHARACTERS_MAX]}... ({len(text)} characters)"
