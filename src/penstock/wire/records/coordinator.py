"""Keys and values of the coordinators' topics, each behind two bytes.

The two bytes before a key are the record type, those before a value its version.  A record without
a value is a tombstone.
"""

import struct
from typing import Final, NamedTuple

from penstock.wire.codec import read, read_int16, read_versioned, write_into, write_versioned
from penstock.wire.primitives import Buffer, UnknownRecord
from penstock.wire.records import group, share_group, share_state, streams_group, transaction
from penstock.wire.schema import by_key, schema_of

_TYPE: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


class Family(NamedTuple):
    """The records of one topic, by type."""

    keys: dict[int, type]
    values: dict[int, type]


GROUP_RECORDS: Final = Family(
    keys=by_key(
        group.LegacyOffsetCommitKey,
        group.OffsetCommitKey,
        group.GroupMetadataKey,
        group.ConsumerGroupMetadataKey,
        group.ConsumerGroupPartitionMetadataKey,
        group.ConsumerGroupMemberMetadataKey,
        group.ConsumerGroupTargetAssignmentMetadataKey,
        group.ConsumerGroupTargetAssignmentMemberKey,
        group.ConsumerGroupCurrentMemberAssignmentKey,
        group.ConsumerGroupRegularExpressionKey,
        share_group.ShareGroupMemberMetadataKey,
        share_group.ShareGroupMetadataKey,
        share_group.ShareGroupTargetAssignmentMetadataKey,
        share_group.ShareGroupTargetAssignmentMemberKey,
        share_group.ShareGroupCurrentMemberAssignmentKey,
        share_group.ShareGroupStatePartitionMetadataKey,
        streams_group.StreamsGroupMetadataKey,
        streams_group.StreamsGroupMemberMetadataKey,
        streams_group.StreamsGroupTargetAssignmentMetadataKey,
        streams_group.StreamsGroupTargetAssignmentMemberKey,
        streams_group.StreamsGroupCurrentMemberAssignmentKey,
        streams_group.StreamsGroupTopologyKey,
    ),
    values=by_key(
        group.LegacyOffsetCommitValue,
        group.OffsetCommitValue,
        group.GroupMetadataValue,
        group.ConsumerGroupMetadataValue,
        group.ConsumerGroupPartitionMetadataValue,
        group.ConsumerGroupMemberMetadataValue,
        group.ConsumerGroupTargetAssignmentMetadataValue,
        group.ConsumerGroupTargetAssignmentMemberValue,
        group.ConsumerGroupCurrentMemberAssignmentValue,
        group.ConsumerGroupRegularExpressionValue,
        share_group.ShareGroupMemberMetadataValue,
        share_group.ShareGroupMetadataValue,
        share_group.ShareGroupTargetAssignmentMetadataValue,
        share_group.ShareGroupTargetAssignmentMemberValue,
        share_group.ShareGroupCurrentMemberAssignmentValue,
        share_group.ShareGroupStatePartitionMetadataValue,
        streams_group.StreamsGroupMetadataValue,
        streams_group.StreamsGroupMemberMetadataValue,
        streams_group.StreamsGroupTargetAssignmentMetadataValue,
        streams_group.StreamsGroupTargetAssignmentMemberValue,
        streams_group.StreamsGroupCurrentMemberAssignmentValue,
        streams_group.StreamsGroupTopologyValue,
    ),
)

TRANSACTION_RECORDS: Final = Family(
    keys=by_key(
        transaction.TransactionLogKey,
    ),
    values=by_key(
        transaction.TransactionLogValue,
    ),
)

SHARE_STATE_RECORDS: Final = Family(
    keys=by_key(
        share_state.ShareSnapshotKey,
        share_state.ShareUpdateKey,
    ),
    values=by_key(
        share_state.ShareSnapshotValue,
        share_state.ShareUpdateValue,
    ),
)


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
