"""Parses lines of kafka-console-producer into headers, key and value: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.cli.kafka.framework.runner import CommandRejected

SEPARATORS = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
KEYS = (*SEPARATORS, "parse.key", "parse.headers", "ignore.error", "null.marker", "topic")


class LineRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]


class LineRejected(Exception):
    """The line lacks a separator."""


@dataclass(frozen=True, slots=True)
class LineReader:
    parse_key: bool = False
    parse_headers: bool = False
    ignore_error: bool = False
    key_separator: bytes = b"\t"
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "LineReader":
        """Return a reader for properties; raise CommandRejected for equal separators."""
        texts = {
            "key.separator": "\t",
            "headers.delimiter": "\t",
            "headers.separator": ",",
            "headers.key.separator": ":",
        }
        texts |= {name: properties[name] for name in SEPARATORS if name in properties}
        marker = properties.get("null.marker")
        pairs = [
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ]
        for one, other in pairs:
            if texts[one] == texts[other]:
                raise CommandRejected(f"{one} and {other} may not be equal")
        for name in SEPARATORS:
            if texts[name] == marker:
                raise CommandRejected(f"null.marker and {name} may not be equal")
        try:
            re.compile(texts["headers.separator"])
        except re.error as problem:
            raise CommandRejected(
                f"headers.separator is a regular expression, and {problem}"
            ) from None
        return cls(
            _true(properties, "parse.key"),
            _true(properties, "parse.headers"),
            _true(properties, "ignore.error"),
            texts["key.separator"].encode(),
            texts["headers.delimiter"].encode(),
            texts["headers.separator"].encode(),
            texts["headers.key.separator"].encode(),
            None if marker is None else marker.encode(),
        )

    @property
    def plain(self) -> bool:
        """Return whether a whole line is the value."""
        return not self.parse_key and not self.parse_headers and self.null_marker is None

    def record(self, line: bytes, number: int) -> LineRecord:
        """Return the record of a line without its newline; raise LineRejected."""
        at = 0
        headers = key = None
        if self.parse_headers:
            headers = self._part(line, at, self.headers_delimiter, "headers delimiter", number)
            at += 0 if headers is None else len(headers) + len(self.headers_delimiter)
        if self.parse_key:
            key = self._part(line, at, self.key_separator, "key separator", number)
            at += 0 if key is None else len(key) + len(self.key_separator)
        value: bytes | None = line[at:]
        return LineRecord(
            None if key == self.null_marker else key,
            None if value == self.null_marker else value,
            []
            if headers is None or headers == self.null_marker
            else self._headers(headers, number),
        )

    def _part(
        self, line: bytes, start: int, separator: bytes, name: str, number: int
    ) -> bytes | None:
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end]
        if self.ignore_error:
            return None
        shown = line.decode("utf-8", "replace")
        raise LineRejected(f"No {name} found on line number {number}: '{shown}'")

    def _headers(self, text: bytes, number: int) -> list[tuple[str, str | bytes | None]]:
        found: list[tuple[str, str | bytes | None]] = []
        for pair in re.split(self.headers_separator, text):
            name, separator, value = pair.partition(self.headers_key_separator)
            shown = name.decode("utf-8", "replace")
            if not separator:
                if not self.ignore_error:
                    raise LineRejected(
                        f"No header key separator found in pair '{shown}' on line number {number}"
                    )
                found.append((shown, None))
                continue
            if name == self.null_marker:
                raise LineRejected(
                    f"Header keys should not be equal to the null marker '{shown}' as they can't "
                    "be null"
                )
            found.append((shown, None if value == self.null_marker else value))
        return found


def _true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
