"""Random messages and records, made from their schemas."""

import struct
from random import Random

from penstock.wire.apis import APIS, request_class, response_class
from penstock.wire.primitives import Blob, Fixed
from penstock.wire.records import consumer_protocol, principal, quorum
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_RECORDS,
)
from penstock.wire.records.metadata import METADATA_RECORDS
from penstock.wire.schema import Array, FieldSchema, Kind, Nested, Text, schema_of

TEXTS = ("", "a", "orders", "größe", "流れ", "🚰", "x" * 126, "x" * 127, "x" * 128, "ü" * 200)


def all_messages() -> list[type]:
    return [of(key) for key in APIS for of in (request_class, response_class)]


def all_records() -> list[type]:
    families = (GROUP_RECORDS, SHARE_STATE_RECORDS, TRANSACTION_RECORDS)
    found = [cls for family in families for table in family for cls in table.values()]
    found += METADATA_RECORDS.values()
    for module in (quorum, consumer_protocol, principal):
        found += [
            cls
            for cls in vars(module).values()
            if isinstance(cls, type) and cls.__module__ == module.__name__ and is_top_level(cls)
        ]
    return found


def is_top_level(cls: type) -> bool:
    return schema_of(cls).versions.last < 100


def all_versions(cls: type) -> range:
    versions = schema_of(cls).versions
    return range(versions.first, versions.last + 1)


def random_message(cls: type, version: int, random: Random) -> object:
    """Return a message; the fields of its version hold likely and unlikely values."""
    values = {
        item.name: random_field(item, version, random)
        for item in schema_of(cls).fields
        if version in item.versions
    }
    made: object = cls(**values)
    return made


def random_field(item: FieldSchema, version: int, random: Random) -> object:
    if item.tag is not None and random.random() < 0.4:
        return item.fresh_default()
    if version in item.nullable and random.random() < 0.2:
        return None
    return random_value(item.kind, version, random)


def random_value(kind: Kind, version: int, random: Random) -> object:
    match kind:
        case Fixed():
            return random_fixed(kind.format, random)
        case Text():
            return random.choice(TEXTS)
        case Blob():
            return random.randbytes(random.choice((0, 1, 5, 127, 128, 300)))
        case Nested(cls):
            return random_message(cls, version, random)
        case Array(Fixed() as element):
            count = random.choice((0, 1, 3, 15, 16, 17, 130))
            return [random_fixed(element.format, random) for _ in range(count)]
        case Array(element):
            count = random.choice((0, 1, 1, 2, 3))
            return [random_value(element, version, random) for _ in range(count)]


def random_fixed(format_: str, random: Random) -> object:
    match format_:
        case "?":
            return random.random() < 0.5
        case "d":
            return random.choice((0.0, -1.5, 1e300, 0.1))
        case "16s":
            return random.choice((bytes(16), random.randbytes(16)))
    bits = 8 * struct.calcsize(">" + format_)
    low = 0 if format_.isupper() else -(1 << bits - 1)
    high = low + (1 << bits) - 1
    return random.choice((0, 1, max(low, -1), low, high, random.randint(low, high)))
