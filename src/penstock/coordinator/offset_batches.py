"""Committed offsets read and written quickly: a coordinator's partition holds little else.

Hand-written beside the general codec, which takes three times as long. Kafka has laid out offsets
in one form since 2.1: a key of type 1, no metadata, no record headers. The value has version 3, or
version 4 with or without a topic id. Single records that are something else are left to the general
codec. A batch with an unusual framing or an unreadable record is left to `batches.decode`, which
also raises its errors. A property test proves both paths equal.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from penstock.coordinator.records import CoordinatorRecord, PendingOffset
from penstock.wire.batch import SMALL_VARINTS, write_varint
from penstock.wire.primitives import ZERO_UUID, Malformed, UnknownRecord
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    read_coordinator_key,
    read_coordinator_value,
    write_coordinator_key,
)
from penstock.wire.records.group import OffsetCommitKey, OffsetCommitValue

KeyAndValue = tuple[object, object | None]

# A group's records come in runs: the names of the last few groups and topics are kept.
NAMES_MAX: Final = 16_384
NO_EXPIRY: Final = -1

_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_GROUP_AT: Final = 4  # in a key, after its type and the length of the name
# Version, offset, leader epoch, length of the metadata, time of the commit; in version 4 also the
# number of tagged fields, then tag, length and content of the topic id.
_VALUE_3: Final = struct.Struct(">hqihq")
_VALUE_4: Final = struct.Struct(">hqiBqB")
_VALUE_4_WITH_ID: Final = struct.Struct(">hqiBqBBB16s")
_TOPIC_ID_TAG: Final = (1, 0, 16)
# The rest of a record after group and topic: the partition, the length of the value, and the value
# up to the time of the commit. Before them: attributes, and the time since the first record.
_REST: Final = struct.Struct(">iBhqiBq")
_NO_TIME_SINCE: Final = bytes(2)
_REST_BYTES: Final = len(_NO_TIME_SINCE) + _REST.size


def read_quickly(data: bytes, count: int) -> list[KeyAndValue] | None:
    """Return the keys and values of the uncompressed records of a batch. Skip records of an unknown
    type. Return None if only the general codec can read the batch."""
    if count < 0:
        return None
    pairs: list[KeyAndValue] = []
    position = 0
    try:
        for _ in range(count):
            position = _read_record(data, position, pairs)
            if position < 0:
                return None
    except (IndexError, Malformed):
        return None
    return pairs if position == len(data) else None


def _read_record(data: bytes, position: int, pairs: list[KeyAndValue]) -> int:
    """Append one record to the pairs and return the next position; -1 if the record is unusual.

    Lengths are zigzag varints: one byte below 64, two below 8192, odd if negative.
    """
    size = data[position]
    position += 1
    if size >= 0x80:
        if data[position] >= 0x80:
            return -1
        size += (data[position] << 7) - 0x80
        position += 1
    end = position + (size >> 1)
    position += 2  # attributes: none are defined; the time since the first record
    if data[position - 1] >= 0x80:
        position += 1
        if data[position - 1] >= 0x80:
            return -1
    if data[position] >= 0x80:  # the number in the batch
        position += 1
        if data[position] >= 0x80:
            return -1
    key_size = data[position + 1]
    position += 2
    if key_size >= 0x80:
        if data[position] >= 0x80:
            return -1
        key_size += (data[position] << 7) - 0x80
        position += 1
    key_end = position + (key_size >> 1)
    value_size = data[key_end]
    value_at = key_end + 1
    if value_size >= 0x80:
        if data[value_at] >= 0x80:
            return -1
        value_size += (data[value_at] << 7) - 0x80
        value_at += 1
    value_end = value_at + (value_size >> 1)
    is_tombstone = value_size == 1
    if (size | key_size) & 1 or (value_size & 1 and not is_tombstone):
        return -1
    if data[value_end] != 0 or value_end + 1 != end:
        return -1  # record headers, or lengths that do not agree
    if data[position + 1] != 1 or data[position] != 0:
        value = None if is_tombstone else data[value_at:value_end]
        _read_other(data[position:key_end], value, pairs)
        return end
    names = _names(data[position : key_end - 4])
    if names is None:
        return -1
    key: OffsetCommitKey = object.__new__(OffsetCommitKey)
    key.group, key.topic = names
    (key.partition,) = _PARTITION.unpack_from(data, key_end - 4)
    pairs.append((key, None if is_tombstone else _read_value(key, data, value_at, value_end)))
    return end


@lru_cache(maxsize=NAMES_MAX)
def _names(prefix: bytes) -> tuple[str, str] | None:
    """Return group and topic of an offset's key without its partition; None if they are
    malformed."""
    try:
        topic_at = _GROUP_AT + _LENGTH.unpack_from(prefix, 2)[0] + _LENGTH.size
        topic_length = _LENGTH.unpack_from(prefix, topic_at - _LENGTH.size)[0]
        if topic_at < _GROUP_AT + _LENGTH.size or topic_at + topic_length != len(prefix):
            return None
        return prefix[_GROUP_AT : topic_at - _LENGTH.size].decode(), prefix[topic_at:].decode()
    except (struct.error, UnicodeDecodeError):
        return None


def _read_value(key: OffsetCommitKey, data: bytes, start: int, end: int) -> object:
    """Return an `OffsetCommitValue`, with the fields set as its own reader does."""
    size = end - start
    topic_id = ZERO_UUID
    usual = False
    if size == _VALUE_4_WITH_ID.size:
        version, offset, leader_epoch, length, committed_ms, tags, tag, tag_size, topic_id = (
            _VALUE_4_WITH_ID.unpack_from(data, start)
        )
        usual = version == 4 and length == 1 and (tags, tag, tag_size) == _TOPIC_ID_TAG
    elif size == _VALUE_4.size:
        version, offset, leader_epoch, length, committed_ms, tags = _VALUE_4.unpack_from(
            data, start
        )
        usual = version == 4 and length == 1 and tags == 0
        if version == 3:
            _, offset, leader_epoch, length, committed_ms = _VALUE_3.unpack_from(data, start)
            usual = length == 0
    if not usual:
        return read_coordinator_value(GROUP_RECORDS, key, data[start:end])[0]
    value: OffsetCommitValue = object.__new__(OffsetCommitValue)
    value.offset = offset
    value.leader_epoch = leader_epoch
    value.metadata = ""
    value.commit_timestamp = committed_ms
    value.expire_timestamp = NO_EXPIRY
    value.topic_id = topic_id
    return value


def write_quickly(records: Sequence[CoordinatorRecord | PendingOffset]) -> bytes | None:
    """Return the records as the general codec writes them, values in version 4. All records have
    one timestamp, and their numbers start at zero. Return None if only the general codec can write
    them.

    Hot path: a consumer commits a record per partition.
    """
    parts: list[bytes] = []
    pack = _REST.pack
    group = topic = topic_id = None
    number_bytes = 0
    for number, record in zip(_numbers(len(records)), records, strict=False):
        key, value = record.key, record.value
        if type(key) is not OffsetCommitKey or type(value) is not OffsetCommitValue:
            return None
        if value.metadata or value.expire_timestamp != NO_EXPIRY:
            return None
        if (
            key.topic is not topic
            or key.group is not group
            or value.topic_id is not topic_id
            or len(number) != number_bytes
        ):  # the first record of its run
            group, topic, topic_id = key.group, key.topic, value.topic_id
            number_bytes = len(number)
            head = _key_head(group, topic)
            value_size, tail = _value_tail(topic_id)
            size = number_bytes + len(head) + len(tail) + _REST_BYTES
            if size >= len(SMALL_VARINTS):
                return None
            begin = SMALL_VARINTS[size] + _NO_TIME_SINCE
        parts += (
            begin,
            number,
            head,
            pack(
                key.partition,
                value_size,
                4,
                value.offset,
                value.leader_epoch,
                1,
                value.commit_timestamp,
            ),
            tail,
        )
    return b"".join(parts)


def _numbers(count: int) -> Sequence[bytes]:
    """Return the encoded numbers of the records of a batch, at least `count`."""
    if count <= len(SMALL_VARINTS):
        return SMALL_VARINTS
    more = []
    for number in range(len(SMALL_VARINTS), count):
        out = bytearray()
        write_varint(out, number)
        more.append(bytes(out))
    return [*SMALL_VARINTS, *more]


@lru_cache(maxsize=NAMES_MAX)
def _value_tail(topic_id: bytes) -> tuple[int, bytes]:
    """Return the encoded length of a value, and the bytes after the time of the commit."""
    if topic_id == ZERO_UUID:
        return _VALUE_4.size << 1, bytes(2)
    return _VALUE_4_WITH_ID.size << 1, bytes(_TOPIC_ID_TAG) + topic_id + bytes(1)


@lru_cache(maxsize=NAMES_MAX)
def _key_head(group: str, topic: str) -> bytes:
    """Return the encoded length of an offset's key, and the key without its partition."""
    key = write_coordinator_key(OffsetCommitKey(group=group, topic=topic))
    out = bytearray()
    write_varint(out, len(key))
    return bytes(out + key[: -_PARTITION.size])


def _read_other(raw_key: bytes, raw_value: bytes | None, pairs: list[KeyAndValue]) -> None:
    try:
        key = read_coordinator_key(GROUP_RECORDS, raw_key)
    except UnknownRecord:
        return
    value = None
    if raw_value is not None:
        value, _version = read_coordinator_value(GROUP_RECORDS, key, raw_value)
    pairs.append((key, value))
