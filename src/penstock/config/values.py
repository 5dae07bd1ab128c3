"""Converts the text of a value to the value, and back; both as Kafka does."""

import re
from collections.abc import Mapping

from penstock.config.allowed import EachOf
from penstock.config.key import Key, Value, ValueType
from penstock.errors import InvalidConfig

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BITS = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}


class WrongSetting(InvalidConfig, code=InvalidConfig.code):
    """A setting that conflicts with others; `keys` are the responsible ones, the first set one
    first."""

    def __init__(self, message: str, *keys: str) -> None:
        super().__init__(message)
        self.keys = keys


def parse(key: Key, text: str) -> Value:
    """Return the typed value of a text; raise InvalidConfig if the key rejects it."""
    text = text.strip()
    try:
        value = _parse_type(key.type, text)
    except ValueError as problem:
        raise rejected(key, text, str(problem)) from None
    refusal = key.allowed.refusal(value) if key.allowed is not None else None
    if refusal is not None:
        # For a list, name the wrong word.
        word = key.allowed.stranger(value) if isinstance(key.allowed, EachOf) else None
        raise rejected(key, text if word is None else word, refusal)
    return value


def parse_known(
    texts: Mapping[str, str], keys: Mapping[str, Key]
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the valid values, and the reasons for the ignored ones, one sentence each.

    Values were checked when they were set. A value that this release rejects must not stop the node
    that finds it in the metadata log.
    """
    values: dict[str, Value] = {}
    ignored: list[str] = []
    for name, text in texts.items():
        key = keys.get(name)
        try:
            if key is None:
                raise InvalidConfig(f"{name} is no key of this release")
            values[name] = parse(key, text)
        except InvalidConfig as problem:
            ignored.append(problem.message)
    return values, tuple(ignored)


def rejected(key: Key, text: str, reason: str) -> InvalidConfig:
    """Return the complaint about a value, in the words of Kafka's ConfigException."""
    shown = "(hidden)" if key.sensitive else text
    return InvalidConfig(f"Invalid value {shown} for configuration {key.name}: {reason}")


def _parse_type(kind: ValueType, text: str) -> Value:
    match kind:
        case ValueType.BOOLEAN:
            return _parse_boolean(text)
        case ValueType.SHORT | ValueType.INT | ValueType.LONG:
            return _parse_integer(text, kind)
        case ValueType.DOUBLE:
            if not _DOUBLE.fullmatch(text):
                raise ValueError(f"Not a number of type {kind.name}")
            return float(text)
        case ValueType.LIST:
            return tuple(map(str.strip, text.split(","))) if text else ()
        case _:
            return text


def _parse_boolean(text: str) -> bool:
    word = text.lower()
    if word not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return word == "true"


def _parse_integer(text: str, kind: ValueType) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"Not a number of type {kind.name}")
    value = int(text)
    limit = 1 << (_BITS[kind] - 1)
    if not -limit <= value < limit:
        raise ValueError(f"Not a number of type {kind.name}; it goes from {-limit} to {limit - 1}")
    return value


def to_text(value: Value) -> str | None:
    """Return the value as Kafka prints it; None stays None."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _double_text(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _double_text(value: float) -> str:
    """Return a double as Java prints it: plain from a thousandth to ten million, else with an
    exponent."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value:.16e}".partition("e")
    shortest = repr(value)
    if "e" in shortest:
        digits, _, exponent = shortest.partition("e")
    else:
        digits = digits.rstrip("0")
    digits = digits if "." in digits else digits + ".0"
    digits = digits + "0" if digits.endswith(".") else digits
    return f"{digits}E{int(exponent)}"
