"""JSON lines as records: an object in each line, with key, value, headers, partition, timestamp.

Many lines are parsed in one call, because a call per line costs more than the parsing; a test holds
that both paths give the same. Output of `penstock consume --format json` is valid input.
"""

import base64
import binascii
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from penstock.cli.arguments.times import parse_time

Entry: TypeAlias = dict[str, Any]

_raw_decode = json.JSONDecoder().raw_decode
# Python reads NaN, Infinity and too large numbers; these are no JSON when written again.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
# Separates values that are parsed together; random, so that no value contains it.
_BETWEEN = secrets.token_hex(16)
_JOIN_TEXT = f',"{_BETWEEN}",'
_JOIN = _JOIN_TEXT.encode()

PLAIN_FIELDS = frozenset({"key", "value"})
# Fields of `penstock consume` that a new record does not take over.
_PASSED_OVER = frozenset({"topic", "offset", "timestamp_type", "leader_epoch"})
_FIELDS = ("key", "value", "headers", "partition", "timestamp", "key_base64", "value_base64")


class NotARecord(ValueError):
    """The line is no record; the text has the reason."""


def entries_of_lines(lines: Sequence[bytes]) -> Iterator[Entry | NotARecord | None]:
    """Yield the record of each line, its error, or None for an empty line."""
    together = _entries_together(lines)
    if together is not None:
        yield from together
        return
    for line in lines:
        try:
            yield entry_of_line(line)
        except NotARecord as wrong:
            yield wrong


def is_plain(entry: Entry) -> bool:
    """Return whether the entry has only key and value."""
    return entry.keys() <= PLAIN_FIELDS


# -- one line


def entry_of_line(line: bytes) -> Entry | None:
    try:
        text = line.decode().strip()
        if not text:
            return None
        said, end = _raw_decode(text)
        if end != len(text):
            raise NotARecord(f"something follows the object: {text[end : end + 20]!r}")
        return _entry(said)
    except NotARecord:
        raise
    except RecursionError:
        raise NotARecord("nested too deeply") from None
    except ValueError as wrong:  # errors of JSON and of UTF-8 are ValueErrors
        raise NotARecord(str(wrong)) from None


def _entry(said: Any) -> Entry:
    if type(said) is not dict:
        raise NotARecord('must be an object, such as {"key": "a", "value": 1}')
    if not said:
        raise NotARecord("an empty object says neither key nor value; null is a way to say none")
    if said.keys() <= PLAIN_FIELDS:
        return {name: _content(value) for name, value in said.items()}
    return _entry_of_fields(said)


def _entry_of_fields(said: Mapping[str, Any]) -> Entry:
    entry: Entry = {}
    for name, value in said.items():
        match name:
            case "key" | "value":
                entry[name] = _content(value)
            case "key_base64" | "value_base64":
                entry[name.removesuffix("_base64")] = _from_base64(name, value)
            case "headers" if value:
                entry[name] = _headers(value)
            case "partition" if value is not None:
                entry[name] = _partition(value)
            case "timestamp" if value is not None:
                entry[name] = _timestamp(value)
            case _ if name not in _PASSED_OVER and name not in _FIELDS:
                known = ", ".join(_FIELDS)
                raise NotARecord(f"{name!r} is no field of a record; there are {known}")
    return entry


def _content(value: Any) -> bytes | None:
    """Return text as UTF-8, null as None, other values as JSON."""
    if type(value) is str:
        return value.encode()
    if value is None:
        return None
    try:
        text = _encode(value)
    except ValueError:
        raise NotARecord("NaN, Infinity and numbers as large are no JSON") from None
    return text.encode()


def _from_base64(name: str, value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError):
        raise NotARecord(f"{name} is no base64") from None


def _headers(value: Any) -> list[tuple[str, bytes | None]]:
    """Parse `{"name": "value"}`, or a list of `{"key": ..., "value": ...}` with repeated names."""
    if isinstance(value, dict):
        return [(name, _content(each)) for name, each in value.items()]
    if not isinstance(value, list):
        raise NotARecord("headers must be an object or a list")
    found: list[tuple[str, bytes | None]] = []
    for each in value:
        if not isinstance(each, dict) or not isinstance(each.get("key"), str):
            raise NotARecord('a header in a list must be {"key": ..., "value": ...}')
        coded = "value_base64" in each
        content = _from_base64("value_base64", each["value_base64"]) if coded else None
        found.append((each["key"], content if coded else _content(each.get("value"))))
    return found


def _partition(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise NotARecord("partition must be a number from 0 on")
    return value


def _timestamp(value: Any) -> int:
    try:
        found = value if type(value) is int else parse_time(value)
    except (TypeError, ValueError):
        found = -1
    if not 0 <= found < 2**63:
        raise NotARecord("timestamp must be milliseconds or a time such as 2026-01-31T12:00:00Z")
    return found


# -- many lines


def _entries_together(lines: Sequence[bytes]) -> list[Entry] | None:
    """Parse all lines in few calls; return None if a line has to be parsed alone."""
    try:
        said = json.loads(f"[{_JOIN.join(lines).decode()}]")
        # An object over two lines would contain the separator.
        if len(said) != 2 * len(lines) - 1 or said[1::2].count(_BETWEEN) != len(lines) - 1:
            return None
        entries: list[Entry] = said[::2]
        others: list[tuple[Entry, str]] = []
        for number, entry in enumerate(entries):
            if type(entry) is not dict or not entry or not entry.keys() <= PLAIN_FIELDS:
                entries[number] = _entry(entry)
                continue
            for name, value in entry.items():
                if type(value) is str:
                    entry[name] = value.encode()
                elif value is not None:
                    others.append((entry, name))
        _encode_together(others)
    except (ValueError, RecursionError):
        return None
    return entries


def _encode_together(places: Sequence[tuple[Entry, str]]) -> None:
    """Replace each value by its JSON bytes."""
    if not places:
        return
    values = [each for entry, name in places for each in (entry[name], _BETWEEN)]
    encoded = _encode(values[:-1])[1:-1].encode().split(_JOIN)
    assert len(encoded) == len(places), "a value came apart"
    for (entry, name), content in zip(places, encoded, strict=True):
        entry[name] = content
