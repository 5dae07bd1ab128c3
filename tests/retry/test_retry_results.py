"""Results of a handler as records to write: none, one or several."""

from collections.abc import Iterator
from typing import Any

import pytest

from penstock import OutRecord
from penstock.client.serde.json_values import json_bytes
from penstock.retry.route import Output, WithHeaders
from penstock.serde import serializer_of

KEY = b"k"


class AsJson:
    def serialize(self, topic: str, value: object, headers: object) -> bytes:
        del topic, headers
        return json_bytes(value)


AS_JSON = AsJson()


def output(value: Any = str) -> Output:
    return Output("out", serializer_of(str, is_key=True), serializer_of(value, is_key=False))


def values(result: object, value: Any = str) -> list[bytes | None]:
    return [each.value for each in output(value).writes(result, KEY)]


@pytest.mark.parametrize("result", [None, [], (), WithHeaders([], ()), WithHeaders((), ())])
def test_nothing_is_written_for_nothing(result: object) -> None:
    assert values(result) == []


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_out_records_are_several_records(kind: Any) -> None:
    assert values(kind([OutRecord("a"), OutRecord("b")])) == [b"a", b"b"]


def test_a_dict_and_a_list_of_plain_values_are_one_value() -> None:
    assert values({"a": 1}, AS_JSON) == [b'{"a":1}']
    assert values([1, 2], AS_JSON) == [b"[1,2]"]
    assert values([[1], [2]], AS_JSON) == [b"[[1],[2]]"]


def test_an_empty_list_that_is_meant_goes_into_an_out_record() -> None:
    assert values(OutRecord([]), AS_JSON) == [b"[]"]


@pytest.mark.parametrize(
    "result", [[OutRecord("a"), "b"], [[OutRecord("a")]], ("a", OutRecord("b"))]
)
def test_out_records_beside_other_things_or_nested_are_told_apart_from_values(
    result: object,
) -> None:
    with pytest.raises(TypeError, match="several results are one list of OutRecords"):
        output(AS_JSON).writes(result, KEY)


def test_a_generator_is_no_result() -> None:
    def several() -> Iterator[OutRecord[str, str]]:
        yield OutRecord("a")

    with pytest.raises(TypeError, match="of which nothing has run"):
        output(AS_JSON).writes(several(), KEY)
