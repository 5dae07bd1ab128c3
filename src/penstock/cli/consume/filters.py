r"""Which records `penstock consume --filter` lets through. A filter is data, never code.

    FIELD                 there is one (a key, a value, a header)
    !FIELD                there is none
    FIELD OPERATOR TEXT   with one of  =  !=  ~  !~  <  <=  >  >=   and no spaces around it

Fields:

    key, value            as text
    key.PATH, value.PATH  a field of JSON: value.user.id, value.items.0.sku
    header.NAME           the last header of this name
    topic, partition, offset
    timestamp             a time such as 2026-01-31T12:00:00Z, or milliseconds

Names that have dots or signs of operators in them stand in double quotes: `value."a.b"=1`. `=` and
`!=` compare texts, with numbers, booleans and null as JSON writes them; `~` searches for a regular
expression; the others compare numbers where both are numbers, else texts. A field that is not there
passes no comparison but `!=` and `!~`. Several filters must all pass.
"""

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.cli.arguments.times import parse_time
from penstock.cli.consume.record_view import RawRecord
from penstock.cli.terminal.output import Json, WrongUsage

PATTERN_CHARACTERS_MAX = 1_000
SEARCHED_CHARACTERS_MAX = 1_000_000
# The broker's automaton bounds its steps, and knows whole names of ASCII only. A value is searched
# with `re`, whose backtracking can take exponential time.
SEARCH_SECONDS_MAX = 2.0
JSON_BYTES_MAX = 16 * 1024 * 1024
NUMBER_CHARACTERS_MAX = 1_000

_OPERATOR = re.compile(r"!=|!~|<=|>=|[=~<>]")
_SEGMENT = re.compile(r'"([^"]*)"|([^".=!~<>]+)')
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


class _Missing:
    """The value of a field that a record lacks."""


MISSING = _Missing()
FieldValue: TypeAlias = "Json | _Missing"
Filter: TypeAlias = Callable[[RawRecord], bool]


class RecordField(NamedTuple):
    """A field of a record: `key`, or `value` with the path `user`, `id`."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Presence:
    """Passes records that have a field, or that lack it."""

    field: RecordField
    wanted: bool

    def __call__(self, record: RawRecord) -> bool:
        found = look_up(self.field, record)
        return (found is not MISSING and found is not None) is self.wanted


@dataclass(frozen=True, slots=True)
class Comparison:
    field: RecordField
    operator: str
    text: str

    def __call__(self, record: RawRecord) -> bool:
        found = look_up(self.field, record)
        if isinstance(found, _Missing):
            return self.operator == "!="
        if self.operator in ("=", "!="):
            return _equal(found, self.text) is (self.operator == "=")
        return _in_order(found, self.operator, self.text)


@dataclass(frozen=True, slots=True)
class PatternFilter:
    field: RecordField
    pattern: re.Pattern[str]
    wanted: bool

    def __call__(self, record: RawRecord) -> bool:
        found = look_up(self.field, record)
        if isinstance(found, _Missing) or found is None:
            return not self.wanted
        text = _text_of(found)[:SEARCHED_CHARACTERS_MAX]
        with _search_limit(self.pattern.pattern, record):
            return (self.pattern.search(text) is not None) is self.wanted


# -- from text to filters


def parse_filters(texts: Sequence[str]) -> list[Filter]:
    return [parse_filter(text) for text in texts]


def parse_filter(text: str) -> Filter:
    try:
        return _parse(text)
    except ValueError as problem:
        raise WrongUsage(
            f"--filter {text}: {problem}. Such as key=abc, value~order, header.trace=1, "
            "value.user.id=7, offset>=100, timestamp>=2026-01-31, !value"
        ) from None


def _parse(text: str) -> Filter:
    negated = text.startswith("!")
    field, end = _field(text, 1 if negated else 0)
    if end == len(text):
        return Presence(field, wanted=not negated)
    operator = _OPERATOR.match(text, end)
    if negated or operator is None:
        raise ValueError(f"{text[end:]!r} is no operator")
    rest = text[operator.end() :]
    if operator[0] in ("~", "!~"):
        return PatternFilter(field, _pattern(rest), wanted=operator[0] == "~")
    if field.name == "timestamp":
        rest = str(_timestamp(rest))
    elif field.name in ("offset", "partition") and not rest.isdecimal():
        raise ValueError(f"{field.name} is compared with a number")
    return Comparison(field, operator[0], rest)


def _field(text: str, begin: int) -> tuple[RecordField, int]:
    segments: list[str] = []
    position = begin
    # The name of a header may contain dots.
    while (found := _SEGMENT.match(text, position)) is not None:
        segments.append(found[1] if found[1] is not None else found[2])
        position = found.end()
        if not text.startswith(".", position):
            break
        position += 1
    name, *path = segments or [""]
    if position > begin and text[position - 1] == ".":
        raise ValueError("a name is missing after the dot")
    if name == "header" and path:
        return RecordField(name, (".".join(path),)), position
    if name in ("key", "value") or (name in _PLAIN_FIELDS and not path):
        return RecordField(name, tuple(path)), position
    known = "key, value, header.NAME, topic, partition, offset, timestamp"
    raise ValueError(f"{name or text!r} is no field; there are {known}")


_PLAIN_FIELDS = ("topic", "partition", "offset", "timestamp")


def _pattern(text: str) -> re.Pattern[str]:
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_CHARACTERS_MAX} characters")
    try:
        return re.compile(text)
    except re.error as wrong:
        raise ValueError(f"no regular expression: {wrong}") from None


def _timestamp(text: str) -> int:
    try:
        return int(text) if text.isdecimal() else parse_time(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time") from None


# -- looking into records


def look_up(field: RecordField, record: RawRecord) -> FieldValue:
    match field.name:
        case "key":
            return _inside(record.key, field.path)
        case "value":
            return _inside(record.value, field.path)
        case "header":
            return _header(record, field.path[0])
        case "timestamp":
            return record.timestamp_ms
        case "topic":
            return record.topic
        case "partition":
            return record.partition
        case _:
            return record.offset


def _header(record: RawRecord, name: str) -> FieldValue:
    for each, value in reversed(record.headers):
        if each == name:
            return None if value is None else _decoded(value)
    return MISSING


def _inside(data: bytes | None, path: Sequence[str]) -> FieldValue:
    if data is None:
        return MISSING if path else None
    if not path:
        return _decoded(data)
    if len(data) > JSON_BYTES_MAX:
        return MISSING
    try:
        found: FieldValue = json.loads(data)
    except (ValueError, RecursionError):
        return MISSING
    for name in path:
        match found:
            case dict():
                found = found.get(name, MISSING)
            case list() if name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            case _:
                return MISSING
    return found


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


# -- comparing


def _text_of(found: Json) -> str:
    """Return a text unchanged, other values as JSON."""
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _equal(found: Json, text: str) -> bool:
    if isinstance(found, int | float) and not isinstance(found, bool):
        number = _number(text)
        return number is not None and number == found
    return _text_of(found) == text


def _in_order(found: Json, operator: str, text: str) -> bool:
    left = _number(found if isinstance(found, str) else _text_of(found))
    right = _number(text)
    if left is not None and right is not None:
        return _ordered(left, operator, right)
    return isinstance(found, str) and _ordered(found, operator, text)


def _ordered(left: "float | str", operator: str, right: "float | str") -> bool:
    # Both are numbers, or both are texts; the types cannot say so.
    less, same = left < right, left == right  # type: ignore[operator]
    match operator:
        case "<":
            return less
        case "<=":
            return less or same
        case ">":
            return not less and not same
        case _:
            return not less


def _number(text: str) -> float | int | None:
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > NUMBER_CHARACTERS_MAX:
        return None
    return float(text) if found[1] or found[2] else int(text)


# -- limiting a search


@contextmanager
def _search_limit(pattern: str, record: RawRecord) -> Iterator[None]:
    """Raise WrongUsage in a search after SEARCH_SECONDS_MAX, on the main thread; `re` looks for
    signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def too_long(_signal: int, _frame: object) -> None:
        raise WrongUsage(
            f"--filter: the pattern {pattern!r} took longer than {SEARCH_SECONDS_MAX:g} s on "
            f"{record.topic}-{record.partition} at offset {record.offset}; write it so that its "
            "repetitions do not overlap"
        )

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, SEARCH_SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
