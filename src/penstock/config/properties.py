"""Java's properties syntax, all of it: separators, comments, continued lines, escapes.

Pure: text in, entries with their line numbers out. A repeated key is returned twice; the caller
lets the last one count and may warn.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

BYTE_ORDER_MARK = "\ufeff"  # editors on Windows write it at the start of a file

_BREAK = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class PropertiesError(Exception):
    """The text is not in properties syntax; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class PropertyEntry(NamedTuple):
    line: int
    key: str
    value: str


def parse_properties(text: str) -> list[PropertyEntry]:
    """Return all entries, in order."""
    return [_parse_entry(line, logical) for line, logical in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without blanks and comments, continued ones joined; each with its first
    number."""
    lines = _BREAK.split(text.removeprefix(BYTE_ORDER_MARK))
    at = 0
    while at < len(lines):
        first = at
        logical = lines[at].lstrip(_BLANK)
        at += 1
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            logical = logical[:-1]
            # A line with only a backslash is no line: the next one begins a new entry.
            if not logical or at == len(lines):
                break
            logical += lines[at].lstrip(_BLANK)
            at += 1
        if logical:
            yield first + 1, logical


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _parse_entry(line: int, logical: str) -> PropertyEntry:
    end = 0
    while end < len(logical) and logical[end] not in "=:" + _BLANK:
        end += 2 if logical[end] == "\\" else 1
    end = min(end, len(logical))
    value = logical[end:].lstrip(_BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANK)
    return PropertyEntry(line, _unescape(line, logical[:end]), _unescape(line, value))


def _unescape(line: int, text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            out.append(char)
            continue
        char = text[at : at + 1]
        at += 1
        if char == "u":
            digits = text[at : at + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise PropertiesError(line, f"\\u{digits} is not four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    # Java escapes UTF-16 units: join the two halves of a character beyond them.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
