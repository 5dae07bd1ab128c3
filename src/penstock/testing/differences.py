"""How records differ from what a test expects, in words: missing, unexpected, out of order."""

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
    """What is wrong, one line each. `expected` and `found` count records."""

    expected: int
    found: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    out_of_order: tuple[str, ...]

    @property
    def may_still_come(self) -> bool:
        """Whether more records could mend it."""
        return bool(self.missing)

    def __str__(self) -> str:
        kinds = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "out of order": self.out_of_order,
        }
        counts = ", ".join(f"{len(lines)} {kind}" for kind, lines in kinds.items() if lines)
        told = [f"{counts} ({self.expected} expected, {self.found} found)"]
        for kind, lines in kinds.items():
            told += [f"  {kind:12} {line}" for line in lines[:SHOWN_MAX]]
            if len(lines) > SHOWN_MAX:
                told.append(f"  {kind:12} ... and {len(lines) - SHOWN_MAX} more")
        return "\n".join(told)


@dataclass(frozen=True, slots=True)
class Expected:
    """One expected record: a value, or a pair of key and value."""

    value: Any
    key: Any = None
    keyed: bool = False

    @classmethod
    def of(cls, said: object) -> "Expected":
        if isinstance(said, tuple) and len(said) == 2:
            return cls(_as_read(said[1]), _as_read(said[0]), keyed=True)
        return cls(_as_read(said))

    def matches(self, record: Record[Any, Any]) -> bool:
        if not _same(self.value, record.value):
            return False
        return not self.keyed or _same(self.key, record.key)

    def __str__(self) -> str:
        return _content(self.key, self.value, keyed=self.keyed)


def difference(
    found: Sequence[Record[Any, Any]], expected: Sequence[object], *, in_order: bool = True
) -> Difference | None:
    """None if all is as expected. `found` is in order within each partition."""
    wanted = [Expected.of(each) for each in expected]
    places = _matched(found, wanted)
    taken = set(places.values())
    missing = tuple(f"#{n} {each}" for n, each in enumerate(wanted) if n not in taken)
    unexpected = tuple(_shown(each) for n, each in enumerate(found) if n not in places)
    disordered = _disordered(found, wanted, places) if in_order else ()
    if not missing and not unexpected and not disordered:
        return None
    return Difference(len(wanted), len(found), missing, unexpected, disordered)


def _matched(found: Sequence[Record[Any, Any]], wanted: Sequence[Expected]) -> dict[int, int]:
    """For each record that is expected, by its place, the place of what it was expected as: equal
    ones in their order."""
    kinds: dict[str, deque[int]] = defaultdict(deque)
    for number, each in enumerate(wanted):
        kinds[repr(each.value)].append(number)
    matched: dict[int, int] = {}
    for number, record in enumerate(found):
        waiting = kinds.get(repr(_as_read(record.value)), deque())
        place = next((each for each in waiting if wanted[each].matches(record)), None)
        if place is None:  # equal values need not look the same: 1 and 1.0
            rest = (each for queue in kinds.values() for each in queue)
            place = next((each for each in rest if wanted[each].matches(record)), None)
        if place is not None:
            matched[number] = place
            kinds[repr(wanted[place].value)].remove(place)
    return matched


def _disordered(
    found: Sequence[Record[Any, Any]], wanted: Sequence[Expected], places: dict[int, int]
) -> tuple[str, ...]:
    """Records that stand in the way of the longest part that is in order, by partition. Between
    partitions nobody can tell which of two equal records was meant: these count in one only."""
    by_partition: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, record in enumerate(found):
        if number in places:
            by_partition[(record.topic, record.partition)].append(number)
    if len(by_partition) > 1:
        often = Counter(map(str, wanted))
        for partition, numbers in by_partition.items():
            by_partition[partition] = [
                each for each in numbers if often[str(wanted[places[each]])] == 1
            ]
    told = []
    for numbers in by_partition.values():
        kept = _longest_rise([places[each] for each in numbers])
        for index, number in enumerate(numbers):
            if index not in kept:
                told.append(f"{_shown(found[number])} was expected as #{places[number]}")
    return tuple(told)


def _longest_rise(values: Sequence[int]) -> set[int]:
    """The indexes of a longest part of the values that rises."""
    ends: list[int] = []  # the smallest last value of a rise, by its length
    at: list[int] = []  # where that value is
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


def _as_read(said: Any) -> Any:
    """Text stands for its bytes."""
    return said.encode() if isinstance(said, str) else said


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
