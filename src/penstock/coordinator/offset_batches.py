"""Committed offsets read and written quickly: a coordinator's partition holds little else.

Hand-written beside the general codec, which takes three times as long. It knows how offsets have
been laid out since Kafka 2.1: a key of type 1; a value of version 3, or of version 4 with or
without a topic id; no metadata, no record headers. Single records that are something else are left
to the general codec. A batch with anything unusual in its framing is left to `batches.decode` as a
whole, and so are the words for what is wrong with it. A property test proves both ways equal.
"""

import struct
from functools import lru_cache
from typing import Final

from penstock.wire.primitives import ZERO_UUID, UnknownRecord
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    read_coordinator_key,
    read_coordinator_value,
    write_coordinator_key,
)
from penstock.wire.records.group import OffsetCommitKey, OffsetCommitValue

Pair = tuple[object, object | None]

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


def read_quickly(data: bytes, count: int) -> list[Pair] | None:
    """The keys and values of a batch's records, given its uncompressed body; None if it has to be
    read the long way. A record of a type that we do not know is passed over."""
    if count < 0:
        return None
    pairs: list[Pair] = []
    position = 0
    try:
        for _ in range(count):
            position = _read_record(data, position, pairs)
            if position < 0:
                return None
    except IndexError:
        return None
    return pairs if position == len(data) else None


def _read_record(data: bytes, position: int, pairs: list[Pair]) -> int:
    """The position after one record, or -1 if it is unusual.

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
    """Group and topic of an offset's key, of which only the partition is left out; None if
    something is wrong with them."""
    try:
        topic_at = _GROUP_AT + _LENGTH.unpack_from(prefix, 2)[0] + _LENGTH.size
        topic_length = _LENGTH.unpack_from(prefix, topic_at - _LENGTH.size)[0]
        if topic_at < _GROUP_AT + _LENGTH.size or topic_at + topic_length != len(prefix):
            return None
        return prefix[_GROUP_AT : topic_at - _LENGTH.size].decode(), prefix[topic_at:].decode()
    except (struct.error, UnicodeDecodeError):
        return None


def _read_value(key: OffsetCommitKey, data: bytes, start: int, end: int) -> object:
    """The fields of `OffsetCommitValue`, set as its own reader does it."""
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


def write_quickly(key: OffsetCommitKey, value: OffsetCommitValue) -> tuple[bytes, bytes] | None:
    """An offset's key and value as the general codec writes them, the value in version 4; None if
    it has to be written the long way."""
    if value.metadata or value.expire_timestamp != NO_EXPIRY:
        return None
    written_key = _key_prefix(key.group, key.topic) + _PARTITION.pack(key.partition)
    offset, epoch, committed_ms = value.offset, value.leader_epoch, value.commit_timestamp
    if value.topic_id == ZERO_UUID:
        return written_key, _VALUE_4.pack(4, offset, epoch, 1, committed_ms, 0)
    return written_key, _VALUE_4_WITH_ID.pack(
        4, offset, epoch, 1, committed_ms, *_TOPIC_ID_TAG, value.topic_id
    )


@lru_cache(maxsize=NAMES_MAX)
def _key_prefix(group: str, topic: str) -> bytes:
    return write_coordinator_key(OffsetCommitKey(group=group, topic=topic))[: -_PARTITION.size]


def _read_other(raw_key: bytes, raw_value: bytes | None, pairs: list[Pair]) -> None:
    try:
        key = read_coordinator_key(GROUP_RECORDS, raw_key)
    except UnknownRecord:
        return
    value = None
    if raw_value is not None:
        value, _version = read_coordinator_value(GROUP_RECORDS, key, raw_value)
    pairs.append((key, value))
