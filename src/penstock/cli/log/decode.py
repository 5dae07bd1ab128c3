"""Decodes records: users' topics as text, internal topics as their messages."""

from collections.abc import Callable
from typing import TypeAlias

from penstock.cli.log.metadata_secrets import HIDDEN, secret_fields
from penstock.cli.terminal.output import Row
from penstock.model import CLUSTER_METADATA_TOPIC, CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.wire.batch import Record
from penstock.wire.codec import read_int16
from penstock.wire.primitives import Malformed
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    Family,
    read_coordinator_key,
    read_coordinator_value,
)
from penstock.wire.records.metadata import ConfigRecord, read_metadata_record

Decoder: TypeAlias = Callable[[Record], Row]

# Types of control records, by the second number in their key.
_CONTROL_NAMES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)


def decoder_for(topic: str) -> Decoder:
    match topic:
        case str(name) if name == CLUSTER_METADATA_TOPIC:
            return decode_metadata
        case str(name) if name == CONSUMER_OFFSETS_TOPIC:
            return lambda record: _decode_coordinator(GROUP_RECORDS, record)
        case str(name) if name == TRANSACTION_STATE_TOPIC:
            return lambda record: _decode_coordinator(TRANSACTION_RECORDS, record)
        case _:
            return decode_plain


def as_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def decode_plain(record: Record) -> Row:
    return {"key": as_text(record.key), "value": as_text(record.value)}


def decode_control(record: Record) -> Row:
    try:
        kind = read_int16((record.key or b"")[2:])
    except Malformed as problem:
        return {"control": f"unreadable: {problem}"}
    known = 0 <= kind < len(_CONTROL_NAMES)
    value = None if record.value is None else record.value.hex()
    return {"control": _CONTROL_NAMES[kind] if known else kind, "value_hex": value}


def decode_metadata(record: Record) -> Row:
    try:
        value, version = read_metadata_record(record.value or b"")
    except Malformed as problem:
        return {"value": f"unreadable: {problem}"}
    if isinstance(value, ConfigRecord) and secret_fields(value):
        value.value = HIDDEN  # bytes are never shown
    return {"value": repr(value), "version": version}


def _decode_coordinator(family: Family, record: Record) -> Row:
    try:
        key = read_coordinator_key(family, record.key or b"")
        if record.value is None:
            return {"key": repr(key), "value": None}
        value, version = read_coordinator_value(family, key, record.value)
    except Malformed as problem:
        return {"key": f"unreadable: {problem}"}
    return {"key": repr(key), "value": repr(value), "version": version}
