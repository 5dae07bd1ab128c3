"""JSON: of any value that it knows, and of one type (dataclasses, pydantic, msgspec, containers).

Written without blanks, in UTF-8, and without NaN, which is no JSON. A pydantic model or a msgspec
Struct is written and read by its own library, everything else by the rules of json_types.py.
"""

import json
import sys
from typing import Any, TypeVar, get_origin, is_typeddict

from penstock.client.serde.hidden_values import holds_secrets, refuse_hidden
from penstock.client.serde.json_types import is_msgspec, is_pydantic, reader_of, to_jsonable
from penstock.client.serde.protocols import Plain

T = TypeVar("T")

_write = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=to_jsonable
).encode


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_read = json.JSONDecoder(parse_constant=_refuse_constant).decode


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON."""
    return _write(value).encode()


def json_value(data: bytes) -> Any:
    """Return the value of JSON, in Python's own types."""
    return _read(str(data, "utf-8"))


JSON: Plain[Any] = Plain("json", json_bytes, json_value)


def json_of(kind: type[T]) -> Plain[T]:
    """Return a serde of JSON of one type; both sides reject other values."""
    if is_pydantic(kind):
        return _pydantic(kind)
    if is_msgspec(kind):
        return _msgspec(kind)
    reader = reader_of(kind)
    checked = _checked(kind)

    def encode(value: T) -> bytes:
        if checked is not None and not isinstance(value, checked):
            raise TypeError(f"expected {checked.__name__}, not {type(value).__name__}")
        return _write(value).encode()

    def decode(data: bytes) -> T:
        made: T = reader(_read(str(data, "utf-8")))
        return made

    return Plain(f"json of {_name(kind)}", encode, decode)


def _checked(kind: Any) -> type | None:
    """Return the class of values; None for containers with types inside."""
    plain = isinstance(kind, type) and get_origin(kind) is None and not is_typeddict(kind)
    return kind if plain else None


def _pydantic(kind: Any) -> Plain[Any]:
    def encode(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, not {type(value).__name__}")
        if holds_secrets(value):
            refuse_hidden(value)
        text: str = value.model_dump_json(by_alias=True)
        return text.encode()

    return Plain(f"json of {_name(kind)}", encode, kind.model_validate_json)


def _msgspec(kind: Any) -> Plain[Any]:
    library = sys.modules["msgspec"].json
    write = library.Encoder().encode

    def encode(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, not {type(value).__name__}")
        data: bytes = write(value)
        return data

    return Plain(f"json of {_name(kind)}", encode, library.Decoder(kind).decode)


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
