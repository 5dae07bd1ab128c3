"""Formatters of kafka-console-consumer, by their Java names.

A formatter is a function from a message of librdkafka to the bytes that are printed for it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.cli.kafka.framework.runner import CommandRejected, say
from penstock.cli.kafka.records.record_json import as_json
from penstock.cli.terminal.output import Row
from penstock.client.serde.serde_lookup import deserializer_of
from penstock.wire.primitives import Malformed
from penstock.wire.records.coordinator import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    Family,
    read_coordinator_key,
    read_coordinator_value,
)
from penstock.wire.schema import schema_of

Formatter: TypeAlias = "Callable[[Any], bytes]"
Show: TypeAlias = "Callable[[str, bytes | None], bytes]"

PACKAGE = "org.apache.kafka.tools.consumer."
DEFAULT = PACKAGE + "DefaultMessageFormatter"
KEY_VERSION = 0
TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}
# Record types of the offsets formatter; the others belong to the group metadata formatter.
OFFSET_TYPES = frozenset({0, 1})

SWITCHES = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.delivery",
    "print.epoch",
    "print.headers",
    "print.key",
    "print.value",
)
TEXTS = {
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")


def formatter_of(name: str, properties: Mapping[str, str]) -> Formatter:
    """Return a formatter by its Java name, with or without package; raise CommandRejected."""
    short = name.removeprefix(PACKAGE)
    if short == "DefaultMessageFormatter":
        return DefaultFormatter.of(properties).write
    if short == "LoggingMessageFormatter":
        return _logged(DefaultFormatter.of(properties).write)
    found: dict[str, Formatter] = {
        "NoOpMessageFormatter": lambda _message: b"",
        "OffsetsMessageFormatter": lambda message: _stored(message, GROUP_RECORDS, _is_offset),
        "GroupMetadataMessageFormatter": lambda message: _stored(
            message, GROUP_RECORDS, lambda kind: not _is_offset(kind)
        ),
        "TransactionLogMessageFormatter": lambda message: _stored(
            message, TRANSACTION_RECORDS, lambda _kind: True
        ),
    }
    if short not in found:
        known = ", ".join(["DefaultMessageFormatter", "LoggingMessageFormatter", *found])
        raise CommandRejected(f"--formatter {name}: there is no such class here; there is {known}")
    return found[short]


# -- records of users


@dataclass(frozen=True, slots=True)
class DefaultFormatter:
    """Writes the chosen parts of a record with separators, in Kafka's order."""

    printed: frozenset[str]
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    key: Show
    value: Show
    header: Show

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "DefaultFormatter":
        switches = dict.fromkeys(SWITCHES, "false") | {"print.value": "true"}
        switches |= {name: properties[name] for name in SWITCHES if name in properties}
        texts = TEXTS | {name: properties[name] for name in TEXTS if name in properties}
        null = texts["null.literal"].encode()
        _note_unknown(properties)
        return cls(
            frozenset(name for name, said in switches.items() if said.strip().lower() == "true"),
            texts["key.separator"].encode(),
            texts["line.separator"].encode(),
            texts["headers.separator"].encode(),
            _shown_by(properties.get("key.deserializer"), null, is_key=True),
            _shown_by(properties.get("value.deserializer"), null, is_key=False),
            _shown_by(properties.get("headers.deserializer"), null, is_key=False),
        )

    def write(self, message: Any) -> bytes:
        parts: list[bytes] = []
        wants = self.printed.__contains__
        if wants("print.timestamp"):
            parts.append(_timestamp(message))
        if wants("print.partition"):
            parts.append(b"Partition:%d" % message.partition())
        if wants("print.offset"):
            parts.append(b"Offset:%d" % message.offset())
        if wants("print.delivery"):
            parts.append(b"Delivery:NOT_PRESENT")  # deliveries are counted in share groups only
        if wants("print.epoch"):
            parts.append(b"Epoch:" + _epoch(message))
        if wants("print.headers"):
            parts.append(self._headers(message))
        if wants("print.key"):
            parts.append(self.key(message.topic(), message.key()))
        if wants("print.value"):
            parts.append(self.value(message.topic(), message.value()))
        return self.key_separator.join(parts) + self.line_separator if parts else b""

    def _headers(self, message: Any) -> bytes:
        headers = message.headers()
        if not headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name.encode() + b":" + self.header(message.topic(), value) for name, value in headers
        )


def _note_unknown(properties: Mapping[str, str]) -> None:
    for name in properties:
        whose = any(name.startswith(f"{each}.") for each in DESERIALIZERS)
        if name not in (*SWITCHES, *TEXTS, *DESERIALIZERS) and not whose:
            say(f"note: formatter property {name} has no effect here")


def _shown_by(deserializer: str | None, null: bytes, *, is_key: bool) -> Show:
    if deserializer is None:
        return lambda _topic, data: null if data is None else data
    try:
        read = deserializer_of(deserializer, is_key=is_key)
    except (ValueError, TypeError) as problem:
        raise CommandRejected(f"{deserializer}: {problem}") from None

    def show(topic: str, data: bytes | None) -> bytes:
        if data is None:
            return null
        return str(read.deserialize(topic, data, ())).encode()

    return show


def _timestamp(message: Any) -> bytes:
    kind, timestamp = message.timestamp()
    name = TIMESTAMP_TYPES.get(kind)
    return b"NO_TIMESTAMP" if name is None else f"{name}:{timestamp}".encode()


def _epoch(message: Any) -> bytes:
    epoch = message.leader_epoch()
    return b"NOT_PRESENT" if epoch is None or epoch < 0 else str(epoch).encode()


def _logged(write: Formatter) -> Formatter:
    """Return a formatter that also prints each record to stderr."""

    def both(message: Any) -> bytes:
        kind, timestamp = message.timestamp()
        when = f"{TIMESTAMP_TYPES[kind]}:{timestamp}, " if kind in TIMESTAMP_TYPES else ""
        key, value = _text(message.key()), _text(message.value())
        say(f"{when}key:{key}, value:{value}")
        return write(message)

    return both


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode("utf-8", "replace")


# -- records of internal topics


def _is_offset(kind: int) -> bool:
    return kind in OFFSET_TYPES


def _stored(message: Any, family: Family, wanted: Callable[[int], bool]) -> bytes:
    """Return a coordinator's record as JSON; empty for records of another formatter."""
    data = message.key()
    if data is None:
        return b""
    try:
        key = read_coordinator_key(family, data)
        kind = schema_of(type(key)).key
        if kind is None or not wanted(kind):
            return b""
        shown: Row = {"key": {"type": kind, "data": as_json(key, KEY_VERSION)}}
        shown["value"] = None
        if message.value() is not None:
            value, version = read_coordinator_value(family, key, message.value())
            shown["value"] = {"version": version, "data": as_json(value, version)}
    except Malformed as problem:
        say(f"the record at {message.topic()}-{message.partition()} {message.offset()}: {problem}")
        return b""
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
