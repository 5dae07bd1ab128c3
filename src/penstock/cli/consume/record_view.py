"""Records as `penstock consume` shows them: JSON for programs, text that is safe on a terminal."""

import base64
import json
import re
from typing import TypeAlias

from penstock.cli.terminal.output import Json, Row
from penstock.client.records import Record, TimestampType

RawRecord: TypeAlias = Record[bytes, bytes]

PRETTY_BYTES_MAX = 1024 * 1024
_TIMESTAMP_TYPES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
# Control characters, without tabs and newlines.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def as_json(record: RawRecord) -> Row:
    headers: list[Json] = [
        {"key": name, **_bytes_json("value", value)} for name, value in record.headers
    ]
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestamp_type": _TIMESTAMP_TYPES.get(record.timestamp_type),
        **_bytes_json("key", record.key),
        **_bytes_json("value", record.value),
        "headers": headers,
    }


def as_json_line(record: RawRecord) -> str:
    text = json.dumps(as_json(record), ensure_ascii=False, separators=(",", ":"))
    if text.isascii():
        return text
    # JSON does not escape all control characters.
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _bytes_json(name: str, data: bytes | None) -> Row:
    """Return UTF-8 as text, other bytes as base64 under the name `..._base64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def pretty(data: bytes | None) -> bytes | None:
    """Return JSON objects and arrays indented; None for other values."""
    if data is None or data[:1] not in (b"{", b"[") or len(data) > PRETTY_BYTES_MAX:
        return None
    try:
        return json.dumps(json.loads(data), ensure_ascii=False, indent=2).encode()
    except (ValueError, RecursionError):
        return None


def escape_control_characters(data: bytes) -> bytes:
    """Return the data with control characters escaped."""
    text = data.decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text).encode()
