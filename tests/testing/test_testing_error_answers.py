"""Where each API has its error: for every one that is served, in every version."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.broker.handlers import HANDLERS
from penstock.errors import PolicyViolation
from penstock.testing.intercepting.broker_answers import FETCH, METADATA
from penstock.testing.intercepting.error_answers import error_answer
from penstock.wire.apis import APIS, request_class, response_class
from penstock.wire.codec import read_from, write
from penstock.wire.primitives import Blob, Fixed
from penstock.wire.schema import Array, Kind, Nested, Text, schema_of

ERROR = PolicyViolation("by order of the test")
# Those two need a broker; test_testing_intercept.py has them.
SERVED = sorted({*HANDLERS} - {FETCH, METADATA})
CASES = [
    (key, version)
    for key in SERVED
    for version in range(APIS[key].versions[0], APIS[key].versions[1] + 1)
]
ITEMS_PER_LIST = 2


def filled(cls: type, version: int, numbers: Iterator[int]) -> Any:
    """A message with two different entries in every list."""
    made = cls()
    for field in schema_of(cls).fields:
        if version in field.versions:
            setattr(made, field.name, value_of(field.kind, version, numbers))
    return made


def value_of(kind: Kind, version: int, numbers: Iterator[int]) -> Any:
    match kind:
        case Array(element):
            return [value_of(element, version, numbers) for _ in range(ITEMS_PER_LIST)]
        case Nested(cls):
            return filled(cls, version, numbers)
        case Text():
            return f"name-{next(numbers)}"
        case Blob():
            return b""
        case Fixed() if kind.size == 16:
            return next(numbers).to_bytes(16, "big")
        case Fixed() if kind.size == 1:
            return False
        case _:
            return next(numbers)


def entries(message: Any) -> Iterator[Any]:
    """A message and every structure in it."""
    yield message
    for field in schema_of(type(message)).fields:
        value = getattr(message, field.name)
        for each in value if isinstance(value, list) else [value]:
            if hasattr(each, "__schema__"):
                yield from entries(each)


def codes(message: Any) -> list[int]:
    return [
        getattr(each, field.name)
        for each in entries(message)
        for field in schema_of(type(each)).fields
        if field.name in ("error_code", "partition_error_code")
    ]


@pytest.mark.parametrize(
    ("key", "version"), CASES, ids=[f"{APIS[key].name}-v{version}" for key, version in CASES]
)
def test_an_error_has_its_place(key: int, version: int) -> None:
    request = filled(request_class(key), version, iter(range(1, 100)))
    answer = error_answer(key, version, request, ERROR)
    data = bytes(write(answer, version))
    answer_class: type[Any] = response_class(key)
    again, end = read_from(answer_class, version, data, 0)
    assert end == len(data)
    found = [code for code in codes(again) if code]
    assert found, "somewhere it says so"
    assert set(found) == {ERROR.code}


@pytest.mark.parametrize(
    ("key", "version", "count"),
    [
        (0, 9, 4),
        (2, 6, 4),
        (8, 9, 4),
        (9, 1, 4),
        (9, 7, 1),
        (9, 8, 2),
        (10, 3, 1),
        (10, 4, 2),
        (11, 9, 1),
        (19, 7, 2),
        (20, 5, 2),
        (20, 6, 2),
        (24, 3, 4),
        (24, 4, 1),
        (27, 1, 8),
        (34, 2, 8),
        (35, 2, 1),
        (35, 3, 1),
        (49, 1, 2),
        (51, 0, 4),
        (61, 0, 4),
    ],
)
def test_every_item_has_the_error(key: int, version: int, count: int) -> None:
    request = filled(request_class(key), version, iter(range(1, 100)))
    found = codes(error_answer(key, version, request, ERROR))
    assert [code for code in found if code] == [ERROR.code] * count


def test_what_is_asked_for_is_named_in_the_answer() -> None:
    request = filled(request_class(0), 9, iter(range(1, 100)))
    answer = error_answer(0, 9, request, ERROR)
    assert [
        (topic.name, [(part.index, part.error_code) for part in topic.partition_responses])
        for topic in answer.responses
    ] == [
        (topic.name, [(part.index, ERROR.code) for part in topic.partition_data])
        for topic in request.topic_data
    ]


def test_a_request_that_asks_for_nothing_is_answered_with_nothing() -> None:
    assert error_answer(19, 7, request_class(19)(), ERROR) == response_class(19)()
