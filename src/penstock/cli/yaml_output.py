"""JSON-like values as YAML, in block style.

Whatever reads YAML 1.1 or 1.2 reads the same value back: a text is written plain only where no
reader could take it for something else, and numbers in the form that both versions agree on.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from penstock.cli.output import Json

INDENT = "  "
# Longer keys need the notation with a question mark: readers look ahead 1,024 characters for `: `.
PLAIN_KEY_CHARACTERS_MAX = 500

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*")
# What YAML 1.1 takes for a boolean or for nothing, in any case of letters.
_RESERVED = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


def to_yaml(value: Json) -> str:
    """The value as one document, with a newline at its end."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Json) -> Iterator[str]:
    match value:
        case dict() if value:
            yield from _mapping(value)
        case list() if value:
            yield from _sequence(value)
        case _:
            yield _scalar(value)


def _mapping(value: Mapping[str, Json]) -> Iterator[str]:
    for name, each in value.items():
        key = _text(name)
        if len(key) > PLAIN_KEY_CHARACTERS_MAX:
            yield f"? {key}"
            key = ""
        if isinstance(each, dict | list) and each:
            yield f"{key}:"
            yield from (INDENT + line for line in _lines(each))
        else:
            yield f"{key}: {_scalar(each)}"


def _sequence(value: Sequence[Json]) -> Iterator[str]:
    for each in value:
        lead = "- "
        for line in _lines(each):
            yield lead + line
            lead = INDENT


def _scalar(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _text(value)
        case list():
            return "[]"
        case _:
            return "{}"


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    # `1e+16` is a text to YAML 1.1, `1.0e+16` is a number to both.
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return '"' + "".join(map(_character, value)) + '"'


def _character(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    if sign.isprintable():
        return sign
    number = ord(sign)
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
