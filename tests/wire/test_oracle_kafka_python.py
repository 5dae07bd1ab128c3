"""kafka-python has the APIs that clients use: the same bytes, and the same values in them."""

import pkgutil
import uuid
from importlib import import_module
from random import Random
from typing import Any

import kafka.protocol
import pytest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer
from random_messages import all_messages, all_versions, random_message

from penstock.wire.codec import write
from penstock.wire.messages.k18_api_versions import ApiVersionsResponse
from penstock.wire.primitives import ZERO_UUID, Fixed
from penstock.wire.schema import Array, Kind, Nested, schema_of

SEEDS = range(5)
UUID = Fixed("16s", ZERO_UUID)


def their_classes() -> dict[str, Any]:
    for module in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol."):
        if ".old" not in module.name and "stubs" not in module.name:
            import_module(module.name)
    found: dict[str, Any] = {}
    waiting = [ApiMessage]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls is not ApiMessage and cls._class_version is None:
            found[cls.__name__] = cls
    return found


THEIRS = their_classes()
SHARED = [cls for cls in all_messages() if cls.__name__ in THEIRS]


def test_kafka_python_has_the_apis_of_clients() -> None:
    assert len(SHARED) >= 100


def theirs(value: object, version: int) -> object:
    """What kafka-python read, in our words, without names."""
    match value:
        case DataContainer():
            return [
                theirs_of_field(item.name, getattr(value, item.name), version)
                for item in value._struct._fields
                if item.for_version_q(version)
            ]
        case list() | tuple():
            return [theirs(item, version) for item in value]
        case uuid.UUID():
            return value.bytes
        case memoryview():
            return bytes(value)
    return value


def theirs_of_field(name: str, value: object, version: int) -> object:
    """It makes a set of a bit field, and None of the one that says unknown."""
    if isinstance(value, set):
        return sum(1 << bit if bit < 31 else -(1 << 31) for bit in value)
    if value is None and name.endswith("authorized_operations"):
        return -(1 << 31)
    return theirs(value, version)


def ours(message: Any, version: int) -> list[object]:
    """Our message, without names, in what kafka-python makes of it."""
    result: list[object] = []
    for item in schema_of(type(message)).fields:
        value = getattr(message, item.name)
        if version not in item.versions:
            continue
        if item.tag is not None and isinstance(item.kind, Nested) and value == item.fresh_default():
            result.append(None)  # it does not make up a structure that did not come
        else:
            result.append(our_value(value, item.kind, version))
    return result


def our_value(value: Any, kind: Kind, version: int) -> object:
    if isinstance(kind, Array) and value is not None:
        return [our_value(item, kind.element, version) for item in value]
    if isinstance(kind, Nested) and value is not None:
        return ours(value, version)
    return None if kind == UUID and value == ZERO_UUID else value


@pytest.mark.parametrize("cls", SHARED, ids=lambda cls: cls.__name__)
def test_kafka_python_reads_the_same_values_and_writes_the_same_bytes(cls: type) -> None:
    other = THEIRS[cls.__name__]
    for version in all_versions(cls):
        if version > other.max_version:
            continue
        for seed in SEEDS:
            message: Any = random_message(
                cls, version, Random(f"kp {cls.__name__} {version} {seed}")
            )
            data = write(message, version)
            if cls is ApiVersionsResponse and message.error_code:
                continue  # which it takes for version 0, as clients should
            parsed = other.decode(data, version=version)
            assert theirs(parsed, version) == ours(message, version)
            parsed._header = None
            assert bytes(parsed.encode()) == data
