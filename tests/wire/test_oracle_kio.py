"""kio has every API and version that we have: the same bytes, and the same values in them."""

import datetime
import enum
import io
import uuid
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from random import Random
from typing import Any, get_args

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from random_messages import all_messages, all_versions, random_message

from penstock.wire.apis import APIS, OWN_FROM
from penstock.wire.codec import write
from penstock.wire.schema import Array, FieldSchema, Nested, schema_of

SEEDS = range(5)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MS = datetime.timedelta(milliseconds=1)
KAFKAS_MESSAGES = [cls for cls in all_messages() if (schema_of(cls).key or 0) < OWN_FROM]


def kio_class(cls: type, version: int) -> Any:
    schema = schema_of(cls)
    assert schema.key is not None
    package = APIS[schema.key].module.partition("_")[2]
    direction = "response" if schema.response else "request"
    module = import_module(f"kio.schema.{package}.v{version}.{direction}")
    return getattr(module, cls.__name__)


def present(cls: type, version: int) -> list[FieldSchema]:
    return [item for item in schema_of(cls).fields if version in item.versions]


def narrow(message: Any, theirs: Any, version: int, random: Random) -> None:
    """kio makes dates, durations and error codes of some numbers, which then cannot be any."""
    cls = type(message)
    for item, other in zip(present(cls, version), fields(theirs), strict=True):
        value = getattr(message, item.name)
        match other.metadata.get("kafka_type"):
            case "error_code":
                setattr(message, item.name, random.choice(list(ErrorCode)).value)
            case "timedelta_i64" | "datetime_i64" if not (value == -1 and optional(other)):
                setattr(message, item.name, value % 10**12)
        inner = nested_class(other.type)
        if inner is not None:
            for part in value if isinstance(value, list) else [value]:
                if part is not None:
                    narrow(part, inner, version, random)


def optional(other: Any) -> bool:
    return type(None) in get_args(other.type)


def nested_class(annotation: Any) -> Any:
    if is_dataclass(annotation):
        return annotation
    return next(filter(None, map(nested_class, get_args(annotation))), None)


def plain(value: object) -> object:
    """What kio read, in our words, without names."""
    if is_dataclass(value):
        return [plain(getattr(value, item.name)) for item in fields(value)]
    match value:
        case tuple():
            return [plain(item) for item in value]
        case datetime.timedelta():
            return round(value / MS)
        case datetime.datetime():
            return round((value - EPOCH) / MS)
        case uuid.UUID():
            return value.bytes
        case enum.Enum():
            return value.value
    return value


def ours(message: object, theirs: Any, version: int) -> list[object]:
    """Our message, without names; kio says None for a zero uuid and for no date."""
    result: list[object] = []
    for item, other in zip(present(type(message), version), fields(theirs), strict=True):
        value = getattr(message, item.name)
        kind = item.kind.element if isinstance(item.kind, Array) else item.kind
        result.append(our_value(value, kind, nested_class(other.type), other, version))
    return result


def our_value(value: Any, kind: object, inner: Any, other: Any, version: int) -> object:
    if isinstance(value, list):
        return [our_value(part, kind, inner, other, version) for part in value]
    if isinstance(kind, Nested) and value is not None:
        return ours(value, inner, version)
    kafka_type = other.metadata.get("kafka_type")
    if (kafka_type == "uuid" and value == bytes(16)) or (
        kafka_type == "datetime_i64" and value == -1
    ):
        return None
    return value


@pytest.mark.parametrize("cls", KAFKAS_MESSAGES, ids=lambda cls: cls.__name__)
def test_kio_reads_the_same_values_and_writes_the_same_bytes(cls: type) -> None:
    for version in all_versions(cls):
        theirs = kio_class(cls, version)
        reader, writer = entity_reader(theirs), entity_writer(theirs)
        for seed in SEEDS:
            random = Random(f"kio {cls.__name__} {version} {seed}")
            message = random_message(cls, version, random)
            narrow(message, theirs, version, random)
            data = write(message, version)
            entity, size = reader(data, 0)
            assert size == len(data)
            assert plain(entity) == ours(message, theirs, version)
            out = io.BytesIO()
            writer(out, entity)
            assert out.getvalue() == data


def structures(cls: type, theirs: Any, version: int) -> Iterator[tuple[FieldSchema, Any]]:
    """Every field that a version of a message has, at any depth, beside kio's."""
    for item, other in zip(present(cls, version), fields(theirs), strict=True):
        yield item, other
        kind = item.kind.element if isinstance(item.kind, Array) else item.kind
        if isinstance(kind, Nested):
            yield from structures(kind.cls, nested_class(other.type), version)


@pytest.mark.parametrize("cls", KAFKAS_MESSAGES, ids=lambda cls: cls.__name__)
def test_kio_has_the_same_nullable_fields(cls: type) -> None:
    for version in all_versions(cls):
        for item, other in structures(cls, kio_class(cls, version), version):
            if other.metadata.get("kafka_type") not in ("uuid", "datetime_i64"):
                assert (version in item.nullable) == optional(other), (version, item.name)


@pytest.mark.parametrize("cls", KAFKAS_MESSAGES, ids=lambda cls: cls.__name__)
def test_kio_has_the_same_defaults(cls: type) -> None:
    for version in all_versions(cls):
        for item, other in structures(cls, kio_class(cls, version), version):
            if other.default is MISSING or isinstance(item.kind, Nested):
                continue
            default = our_value(item.fresh_default(), item.kind, None, other, version)
            assert default == plain(other.default), (version, item.name)
