"""Avro and JSON Schema: Confluent's bytes, schemas resolved, values of classes, clear refusals."""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
import pydantic
import pytest
from fake_registry import FakeRegistry
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.serde.registry import JSON_SCHEMA
from penstock.client.serde.schema_ids import by_record, frame
from penstock.serde import (
    RegistryError,
    SchemaRegistry,
    SerdeRefused,
    avro,
    deserializer_of,
    json_schema,
    serializer_of,
)

USER = {
    "type": "record",
    "name": "User",
    "namespace": "example",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": "int"},
        {"name": "email", "type": ["null", "string"], "default": None},
    ],
}
# The example of the Avro specification: {"a": 27, "b": "foo"} is 36 06 66 6f 6f.
TEST = {
    "type": "record",
    "name": "test",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
}
PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
    },
    "required": ["name"],
}


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    yield registry
    registry.close()


class Mood(Enum):
    GOOD = "GOOD"


@dataclass
class User:
    name: str
    age: int
    email: str | None = None


class UserModel(pydantic.BaseModel):
    name: str
    age: int
    email: str | None = None


class UserStruct(msgspec.Struct):
    name: str
    age: int
    email: str | None = None


# -- Avro without a registry


def test_avro_is_what_the_specification_says() -> None:
    serde = avro(TEST)
    data = serde.serialize("t", {"a": 27, "b": "foo"}, [])
    assert data == bytes.fromhex("3606666f6f")
    assert serde.deserialize("t", data, ()) == {"a": 27, "b": "foo"}


@given(st.text(), st.integers(-(2**31), 2**31 - 1), st.none() | st.text())
def test_a_record_comes_back(name: str, age: int, email: str | None) -> None:
    serde = avro(USER)
    value = {"name": name, "age": age, "email": email}
    assert serde.deserialize("t", serde.serialize("t", value, []), ()) == value


@pytest.mark.parametrize("kind", [User, UserModel, UserStruct])
def test_objects_are_written_and_made_again(kind: Any) -> None:
    serde = avro(json.dumps(USER), of=kind)
    user = kind(name="Ada", age=36, email="ada@example.org")
    assert serde.deserialize("t", serde.serialize("t", user, []), ()) == user


def test_times_decimals_and_enums_come_back_inside_objects() -> None:
    @dataclass
    class Payment:
        at: datetime
        amount: Decimal
        mood: Mood
        raw: bytes

    schema = {
        "type": "record",
        "name": "Payment",
        "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {
                "name": "amount",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "mood", "type": {"type": "enum", "name": "Mood", "symbols": ["GOOD"]}},
            {"name": "raw", "type": "bytes"},
        ],
    }
    serde = avro(schema, of=Payment)
    payment = Payment(
        datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), Decimal("12.34"), Mood.GOOD, b"\0\xff"
    )
    assert serde.deserialize("t", serde.serialize("t", payment, []), ()) == payment


def test_a_primitive_schema_may_be_said_by_its_name() -> None:
    assert avro("string").serialize("t", "foo", []) == bytes.fromhex("06666f6f")
    assert avro('"long"').serialize("t", 27, []) == bytes.fromhex("36")


def test_a_value_that_does_not_fit_names_the_field() -> None:
    with pytest.raises(ValueError, match="age"):
        avro(USER).serialize("t", {"name": "Ada", "age": "old"}, [])
    with pytest.raises(ValueError, match="age"):
        avro(USER).serialize("t", {"name": "Ada"}, [])


@pytest.mark.parametrize("data", [b"", b"\x06fo", b"\xff" * 20, b"\x02a"])
def test_bytes_that_are_something_else_are_no_avro(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        avro(TEST).deserialize("t", data, ())


def test_bytes_left_over_are_another_schemas() -> None:
    with pytest.raises(ValueError, match="2 bytes are left over"):
        avro('"long"').deserialize("t", b"\x36\0\0", ())


def test_without_schema_and_registry_there_is_nothing_to_write_with() -> None:
    makers: tuple[Any, Any] = (avro, json_schema)
    for make in makers:
        with pytest.raises(SerdeRefused, match=r"give a schema, or a registry"):
            make()


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(SerdeRefused, match="no JSON"):
        avro("{")
    with pytest.raises(SerdeRefused, match="no JSON"):
        json_schema("{")
    with pytest.raises(SerdeRefused, match="an object"):
        json_schema("[]")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nope"},
        "nope",
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]},
        {"type": "enum", "name": "E", "symbols": ["a b"]},
    ],
)
def test_an_avro_schema_that_is_not_legal_is_refused_where_it_is_given(schema: Any) -> None:
    with pytest.raises(SerdeRefused, match="the Avro schema is not legal"):
        avro(schema)


# -- ints have 32 bits

INTS = {
    "type": "record",
    "name": "Ints",
    "fields": [
        {"name": "one", "type": "int", "default": 0},
        {"name": "listed", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "mapped", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "maybe", "type": ["null", "int"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}, "default": 0},
        {"name": "many", "type": "long", "default": 0},
        {"name": "inside", "type": {"type": "array", "items": "Ints"}, "default": []},
    ],
}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"one": 2**31}, "one"),
        ({"one": -(2**31) - 1}, "one"),
        ({"one": 2**40}, "one"),
        ({"listed": [1, 2**31]}, r"listed\[1\]"),
        ({"mapped": {"a": 2**31}}, r"mapped\.a"),
        ({"maybe": 2**31}, "maybe"),
        ({"day": 2**31}, "day"),
        ({"inside": [{"inside": [{"one": 2**31}]}]}, r"inside\[0\]\.inside\[0\]\.one"),
    ],
)
def test_a_number_that_an_int_does_not_hold_is_refused_with_its_path(
    value: dict[str, Any], path: str
) -> None:
    with pytest.raises(ValueError, match=path):
        avro(INTS).serialize("t", value, [])


def test_numbers_that_fit_are_written() -> None:
    serde = avro(INTS)
    value = {
        "one": 2**31 - 1,
        "listed": [-(2**31)],
        "mapped": {"a": 0},
        "maybe": 2**31 - 1,
        "day": datetime(2026, 1, 1, tzinfo=UTC).date(),
        "many": 2**40,
        "inside": [],
    }
    assert serde.deserialize("t", serde.serialize("t", value, []), ()) == value
    with pytest.raises(ValueError, match="32 bits"):
        avro("int").serialize("t", 2**31, [])


def test_ints_of_schemas_that_are_named_are_looked_at_too(fake: FakeRegistry) -> None:
    fake.add("point", {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]})
    number = fake.add(
        "t-value",
        {"type": "record", "name": "L", "fields": [{"name": "from", "type": "P"}]},
        references=[{"name": "P", "subject": "point", "version": 1}],
    )
    serde = avro(registry=fake.url)
    assert serde.serialize("t", {"from": {"x": 1}}, []) == frame(number, b"\x02")
    with pytest.raises(ValueError, match=r"from\.x: 2147483648 does not fit"):
        serde.serialize("t", {"from": {"x": 2**31}}, [])


# -- Avro with a registry


def test_a_value_carries_the_id_of_its_schema(fake: FakeRegistry) -> None:
    serde = avro(TEST, registry=fake.url)
    data = serde.serialize("orders", {"a": 27, "b": "foo"}, [])
    assert data == b"\0" + struct.pack(">I", 1) + bytes.fromhex("3606666f6f")
    assert serde.deserialize("orders", data, ()) == {"a": 27, "b": "foo"}
    assert list(fake.subjects) == ["orders-value"]


def test_the_registry_is_asked_once_for_many_values(fake: FakeRegistry) -> None:
    serde = avro(TEST, registry=fake.url)
    for number in range(10):
        serde.deserialize("t", serde.serialize("t", {"a": number, "b": ""}, []), ())
    assert [path for _, path in fake.asked] == ["/subjects/t-value/versions", "/schemas/ids/1"]


def test_keys_have_a_subject_of_their_own(fake: FakeRegistry) -> None:
    serde = avro(TEST, registry=SchemaRegistry(fake.url))
    serializer_of(serde, is_key=True).serialize("orders", {"a": 1, "b": ""}, [])
    assert list(fake.subjects) == ["orders-key"]


def test_a_subject_may_be_named_after_the_record(fake: FakeRegistry) -> None:
    serde = avro(USER, registry=fake.url, subject_of=by_record)
    serde.serialize("orders", {"name": "Ada", "age": 1}, [])
    assert list(fake.subjects) == ["example.User"]


def test_a_schema_that_has_to_be_there_is_not_registered(fake: FakeRegistry) -> None:
    serde = avro(TEST, registry=fake.url, auto_register=False)
    with pytest.raises(RegistryError, match="Register the schema first"):
        serde.serialize("orders", {"a": 1, "b": ""}, [])
    number = fake.add("orders-value", TEST)
    assert serde.serialize("orders", {"a": 1, "b": ""}, [])[1:5] == struct.pack(">I", number)


def test_the_newest_schema_is_used_on_request(fake: FakeRegistry) -> None:
    newest = fake.add("orders-value", USER)
    serde = avro(TEST, registry=fake.url, use_latest=True)
    data = serde.serialize("orders", {"name": "Ada", "age": 1}, [])
    assert data[:5] == b"\0" + struct.pack(">I", newest)


def test_a_value_is_resolved_to_the_readers_schema(fake: FakeRegistry) -> None:
    older = {**USER, "fields": USER["fields"][:2]}
    data = avro(older, registry=fake.url).serialize("t", {"name": "Ada", "age": 1}, [])
    read = avro(USER, registry=fake.url).deserialize("t", data, ())
    assert read == {"name": "Ada", "age": 1, "email": None}


def test_a_schema_that_cannot_be_resolved_is_refused(fake: FakeRegistry) -> None:
    data = avro('"string"', registry=fake.url).serialize("t", "x", [])
    with pytest.raises(ValueError, match=r"."):
        avro(USER, registry=fake.url).deserialize("t", data, ())


def test_without_a_schema_the_writers_is_enough_to_read(fake: FakeRegistry) -> None:
    data = avro(TEST, registry=fake.url).serialize("t", {"a": 1, "b": "x"}, [])
    assert avro(registry=fake.url).deserialize("t", data, ()) == {"a": 1, "b": "x"}


def test_a_schema_that_names_another_is_put_together(fake: FakeRegistry) -> None:
    fake.add("user", USER)
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "user", "type": "example.User"}],
    }
    references = [{"name": "example.User", "subject": "user", "version": 1}]
    fake.add("orders-value", order, references=references)
    serde = avro(registry=fake.url)
    value = {"user": {"name": "Ada", "age": 1, "email": None}}
    assert serde.deserialize("orders", serde.serialize("orders", value, []), ()) == value


def test_bytes_alone_have_no_length_before_them(fake: FakeRegistry) -> None:
    serde = avro('"bytes"', registry=fake.url)
    data = serde.serialize("t", b"\1\2", [])
    assert data == b"\0\0\0\0\1\1\2"
    assert serde.deserialize("t", data, ()) == b"\1\2"


def test_a_schema_of_another_kind_is_refused(fake: FakeRegistry) -> None:
    number = fake.add("t-value", PERSON, JSON_SCHEMA)
    with pytest.raises(ValueError, match="is JSON, not AVRO"):
        avro(registry=fake.url).deserialize("t", b"\0" + struct.pack(">I", number), ())


def test_confluents_name_writes_and_reads(fake: FakeRegistry) -> None:
    fake.add("orders-value", TEST)
    properties = {"schema.registry.url": fake.url}
    package = "io.confluent.kafka.serializers.KafkaAvro"
    writer = serializer_of(f"{package}Serializer", is_key=False, properties=properties)
    reader = deserializer_of(f"{package}Deserializer", is_key=False, properties=properties)
    data = writer.serialize("orders", {"a": 1, "b": "x"}, [])
    assert data is not None
    assert reader.deserialize("orders", data, ()) == {"a": 1, "b": "x"}


@pytest.mark.parametrize(
    ("value", "schema"),
    [("x", '"string"'), (7, '"long"'), (1.5, '"double"'), (True, '"boolean"'), (b"x", '"bytes"')],
)
def test_confluents_name_registers_plain_values_by_their_type(
    fake: FakeRegistry, value: object, schema: str
) -> None:
    properties = {"schema.registry.url": fake.url}
    name = "io.confluent.kafka.serializers.KafkaAvroSerializer"
    data = serializer_of(name, is_key=True, properties=properties).serialize("t", value, [])
    assert data is not None
    assert fake.schemas[1]["schema"] == schema
    assert list(fake.subjects) == ["t-key"]
    assert avro(registry=fake.url).deserialize("t", data, ()) == value


# -- JSON Schema


def test_json_is_held_to_its_schema_on_both_sides() -> None:
    serde = json_schema(PERSON)
    data = serde.serialize("t", {"name": "Ada", "age": 36}, [])
    assert data == b'{"name":"Ada","age":36}'
    assert serde.deserialize("t", data, ()) == {"name": "Ada", "age": 36}
    with pytest.raises(ValueError, match=r"\$\.age: -1 is less than the minimum of 0"):
        serde.serialize("t", {"name": "Ada", "age": -1}, [])
    with pytest.raises(ValueError, match="'name' is a required property"):
        serde.deserialize("t", b"{}", ())


def test_json_carries_the_id_of_its_schema(fake: FakeRegistry) -> None:
    serde = json_schema(PERSON, registry=fake.url)
    data = serde.serialize("people", {"name": "Ada"}, [])
    assert data == b'\0\0\0\0\1{"name":"Ada"}'
    assert fake.schemas[1]["schemaType"] == "JSON"
    assert json_schema(registry=fake.url).deserialize("people", data, ()) == {"name": "Ada"}


def test_objects_are_validated_as_the_json_that_they_become() -> None:
    @dataclass
    class Event:
        at: datetime

    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    serde = json_schema(schema, of=Event)
    event = Event(datetime(2026, 1, 1, tzinfo=UTC))
    assert serde.deserialize("t", serde.serialize("t", event, []), ()) == event


def test_a_reference_to_another_schema_is_resolved_by_the_registry(fake: FakeRegistry) -> None:
    fake.add("age", {"type": "integer", "minimum": 0}, JSON_SCHEMA)
    person = {"type": "object", "properties": {"age": {"$ref": "age.json"}}}
    references = [{"name": "age.json", "subject": "age", "version": 1}]
    fake.add("people-value", person, JSON_SCHEMA, references)
    serde = json_schema(registry=fake.url)
    assert serde.serialize("people", {"age": 1}, [])
    with pytest.raises(ValueError, match="less than the minimum"):
        serde.serialize("people", {"age": -1}, [])


def test_a_schema_elsewhere_is_never_fetched(fake: FakeRegistry) -> None:
    serde = json_schema({"$ref": f"{fake.url}/evil.json"})
    with pytest.raises(Exception, match="evil"):
        serde.serialize("t", {}, [])
    assert fake.asked == []


def test_a_json_schema_that_is_not_legal_is_refused_where_it_is_given() -> None:
    with pytest.raises(SerdeRefused, match="the JSON schema is not legal"):
        json_schema({"type": "nonsense"})


def test_a_json_schema_of_the_registry_that_is_not_legal_is_refused_with_the_value(
    fake: FakeRegistry,
) -> None:
    number = fake.add("t-value", {"type": "nonsense"}, JSON_SCHEMA)
    with pytest.raises(ValueError, match="the JSON schema is not legal"):
        json_schema(registry=fake.url).deserialize("t", frame(number, b"1"), ())


def test_validation_can_be_left_out() -> None:
    assert json_schema(PERSON, validate=False).serialize("t", {}, []) == b"{}"


def test_confluents_name_of_json_schema_works_and_validates_on_request(fake: FakeRegistry) -> None:
    fake.add("people-value", PERSON, JSON_SCHEMA)
    package = "io.confluent.kafka.serializers.json.KafkaJsonSchema"
    url = {"schema.registry.url": fake.url}
    lenient = serializer_of(f"{package}Serializer", is_key=False, properties=url)
    assert lenient.serialize("people", {}, []) == b"\0\0\0\0\1{}"
    strict = {**url, "json.fail.invalid.schema": "true"}
    with pytest.raises(ValueError, match="required property"):
        serializer_of(f"{package}Serializer", is_key=False, properties=strict).serialize(
            "people", {}, []
        )
    reader = deserializer_of(f"{package}Deserializer", is_key=False, properties=url)
    assert reader.deserialize("people", b'\0\0\0\0\1{"name":"x"}', ()) == {"name": "x"}


# -- the packages behind it


@pytest.mark.parametrize(
    ("package", "code", "extra"),
    [
        ("fastavro", "serde.avro('\"long\"').serialize('t', 1, [])", "penstock[avro]"),
        ("jsonschema", "serde.json_schema({}).serialize('t', 1, [])", "penstock[json-schema]"),
    ],
)
def test_a_missing_package_is_named(package: str, code: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from penstock import serde\n"
        f"try:\n    {code}\n"
        "except serde.SerdeRefused as refused:\n    print(refused)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert extra in done.stdout


def test_nothing_is_loaded_before_it_is_needed() -> None:
    names = ("fastavro", "jsonschema", "pydantic", "msgspec", "confluent_kafka", "http.client")
    program = (
        "import sys\nfrom penstock import serde\n"
        "serde.avro(registry='http://127.0.0.1:1'); serde.json_schema({}, validate=False)\n"
        "serde.json_of(dict[str, int])\n"
        f"print([name for name in {names!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
