r"""How `penstock consume --template` prints a record.

    %t  topic                     %K  length of the key in bytes, -1 for none
    %p  partition                 %V  length of the value in bytes, -1 for none
    %o  offset                    %H  number of headers
    %k  key                       %T  timestamp in milliseconds, -1 for none
    %v  value                     %d  timestamp as a time in UTC
    %h  headers: name=value,...   %e  leader epoch, -1 if it is not known
    %j  the whole record as JSON  %%  a percent sign

    \n \t \r \0 \\ \xHH  as elsewhere        \c  at the end: no newline after the record

A newline follows each record, unless the template ends with one itself. Keys, values and headers
are printed as they are; null is printed as --null-marker says.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from penstock.cli.arguments.times import time_text
from penstock.cli.consume.record_view import RawRecord, as_json_line
from penstock.cli.terminal.output import CommandFailed, WrongUsage

NO_TIME = "-"

Part: TypeAlias = Callable[[RawRecord], bytes]

_TOKEN = re.compile(r"%(.?)|\\(x[0-9A-Fa-f]{2}|.?)|[^%\\]+", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
PLACEHOLDERS = "placeholders are %t %p %o %k %v %h %d %T %K %V %H %e %j %%"
NO_NEWLINE = r"\c"


class Template:
    """A parsed template."""

    def __init__(self, text: str, null: bytes = b"null") -> None:
        self._null = null
        bare = text.endswith(NO_NEWLINE) and not text.endswith("\\" + NO_NEWLINE)
        text = text[:-2] if bare else text
        found = list(_TOKEN.finditer(text))
        self._parts = [self._part(each) for each in found]
        ended = bool(found) and (found[-1][2] == "n" or found[-1][0].endswith("\n"))
        self._newline = b"" if bare or ended else b"\n"

    def render(self, record: RawRecord) -> bytes:
        return b"".join([part(record) for part in self._parts]) + self._newline

    def _part(self, found: re.Match[str]) -> Part:
        if found[1] is not None:
            return self._placeholder(found[1])
        if found[2] is None:
            return _constant(found[0].encode())
        if found[2] in _ESCAPES:
            return _constant(_ESCAPES[found[2]])
        if found[2].startswith("x") and len(found[2]) == 3:
            return _constant(bytes.fromhex(found[2][1:]))
        raise _rejected(found[0], r"escapes are \n \t \r \0 \\ \xHH, and \c at the end")

    def _placeholder(self, letter: str) -> Part:
        null = self._null
        match letter:
            case "%":
                return _constant(b"%")
            case "k":
                return lambda record: null if record.key is None else record.key
            case "v":
                return lambda record: null if record.value is None else record.value
            case "h":
                return lambda record: headers_text(record.headers, null)
            case _ if letter in _NUMBERS:
                number = _NUMBERS[letter]
                return lambda record: number(record).encode()
            case _:
                raise _rejected(f"%{letter}", PLACEHOLDERS)


def headers_text(headers: Sequence[tuple[str, bytes | None]], null: bytes = b"") -> bytes:
    """Return `name=value,name=value`."""
    return b",".join(
        name.encode() + b"=" + (null if value is None else value) for name, value in headers
    )


def _constant(data: bytes) -> Part:
    return lambda _record: data


def _length(data: bytes | None) -> str:
    return str(-1 if data is None else len(data))


def _or_minus_one(number: int | None) -> str:
    return str(-1 if number is None else number)


_NUMBERS: dict[str, Callable[[RawRecord], str]] = {
    "t": lambda record: record.topic,
    "p": lambda record: str(record.partition),
    "o": lambda record: str(record.offset),
    "K": lambda record: _length(record.key),
    "V": lambda record: _length(record.value),
    "H": lambda record: str(len(record.headers)),
    "T": lambda record: _or_minus_one(record.timestamp_ms),
    "d": lambda record: NO_TIME if record.timestamp_ms is None else time_text(record.timestamp_ms),
    "e": lambda record: _or_minus_one(record.leader_epoch),
    "j": as_json_line,
}


def _rejected(what: str, known: str) -> CommandFailed:
    return WrongUsage(f"--template: {what or 'the end'} has no meaning; {known}")
