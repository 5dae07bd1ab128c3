"""Keys and values of the coordinators' topics, each behind two bytes.

The two bytes before a key are the record type, those before a value its version.  A record without
a value is a tombstone.
"""

import struct
from types import ModuleType
from typing import Final, NamedTuple

from penstock.wire.codec import read, read_int16, read_versioned, write_into, write_versioned
from penstock.wire.primitives import Buffer, UnknownRecord
from penstock.wire.records import group, share_group, share_state, streams_group, transaction
from penstock.wire.schema import records_in, schema_of

_TYPE: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


class Family(NamedTuple):
    """The records of one topic, by type."""

    keys: dict[int, type]
    values: dict[int, type]


def _family(*modules: ModuleType) -> Family:
    """Return the records of the modules, which define the key of each type before its value."""
    family = Family({}, {})
    for type_, cls in records_in(*map(vars, modules)):
        (family.values if type_ in family.keys else family.keys)[type_] = cls
    return family


GROUP_RECORDS: Final = _family(group, share_group, streams_group)
TRANSACTION_RECORDS: Final = _family(transaction)
SHARE_STATE_RECORDS: Final = _family(share_state)


def write_coordinator_key(key: object) -> bytes:
    type_ = schema_of(type(key)).key
    assert type_ is not None, "a coordinator key has a type"
    out = bytearray(_TYPE.pack(type_))
    write_into(key, _KEY_VERSION, out)
    return bytes(out)


def write_coordinator_value(value: object, version: int) -> bytes:
    return write_versioned(value, version)


def read_coordinator_key(family: Family, data: Buffer) -> object:
    """Return the key; raise `UnknownRecord` for an unknown type."""
    type_ = read_int16(data)
    cls: type[object] | None = family.keys.get(type_)
    if cls is None:
        raise UnknownRecord(type_)
    return read(cls, _KEY_VERSION, data, _TYPE.size)


def read_coordinator_value(family: Family, key: object, data: Buffer) -> tuple[object, int]:
    """Return the value that belongs to `key`, and its version."""
    type_ = schema_of(type(key)).key
    assert type_ is not None, "a coordinator key has a type"
    cls: type[object] = family.values[type_]
    return read_versioned(cls, data)
