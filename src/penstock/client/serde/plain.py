"""Bytes, text, numbers, UUIDs and booleans, byte for byte as Java's serializers write them.

Where Java replaces characters or bytes (a lone surrogate, invalid UTF-8), these serdes raise: no
value is changed silently.
"""

import codecs
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any
from uuid import UUID

from penstock.client.serde.protocols import Plain, SerdeRefused

Buffer = bytes | bytearray | memoryview

SIGNED_BYTES = {"integer": 4, "long": 8, "short": 2}


def _as_given(value: bytes | str) -> bytes:
    # Most values are bytes already.
    if type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    kind = type(value).__name__
    raise TypeError(
        f"without a serializer only bytes and str can be sent, not {kind}; say which one, e.g. "
        f"serde.JSON or serde.json_of({kind})"
    )


def _same(data: bytes) -> bytes:
    return data


def _bytes(value: Buffer) -> bytes:
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"expected bytes, not {type(value).__name__}")


def _text(value: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"expected str, not {type(value).__name__}")
    return value.encode()


def _from_text(data: bytes) -> str:
    # Also a view of bytes, which has no decode.
    return str(data, "utf-8")


def string_in(encoding: str) -> Plain[str]:
    """Return a serde of text in another encoding than UTF-8; the name is Python's or Java's."""
    try:
        known = codecs.lookup(encoding).name
    except LookupError:
        raise SerdeRefused(f"there is no encoding {encoding!r}; UTF-8 is the default") from None
    # As in Java: big-endian, with a byte order mark; Python would take the machine's order.
    marked = known == "utf-16"

    def encode(value: str) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"expected str, not {type(value).__name__}")
        if marked:
            return codecs.BOM_UTF16_BE + value.encode("utf-16-be") if value else b""
        return value.encode(known)

    def decode(data: bytes) -> str:
        if marked and bytes(data[:2]) not in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE):
            return str(data, "utf-16-be")
        return str(data, known)

    return Plain(f"string in {encoding}", encode, decode)


def _whole(name: str, code: str) -> Plain[int]:
    size = SIGNED_BYTES[name]
    encode, decode = _packed(name, Struct(f">{code}"), f"a whole number of {size} bytes")
    return Plain(name, encode, decode)


def _real(name: str, code: str) -> Plain[float]:
    encode, decode = _packed(name, Struct(f">{code}"), f"a number that fits a {name}")
    return Plain(name, encode, decode)


def _packed(
    name: str, struct: Struct, wanted: str
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    pack, unpack = struct.pack, struct.unpack

    def encode(value: Any) -> bytes:
        try:
            return pack(value)
        except (StructError, OverflowError):
            raise ValueError(f"{value!r} is not {wanted}") from None

    def decode(data: bytes) -> Any:
        try:
            return unpack(data)[0]
        except StructError:
            raise ValueError(f"a {name} has {struct.size} bytes, these are {len(data)}") from None

    return encode, decode


def _uuid_text(value: UUID) -> bytes:
    if not isinstance(value, UUID):
        raise TypeError(f"expected uuid.UUID, not {type(value).__name__}")
    return str(value).encode()


def _from_uuid_text(data: bytes) -> UUID:
    return UUID(str(data, "utf-8"))


def _truth(value: bool) -> bytes:
    if not isinstance(value, bool):
        raise TypeError(f"expected bool, not {type(value).__name__}")
    return b"\x01" if value else b"\x00"


def _from_truth(data: bytes) -> bool:
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    raise ValueError(f"a boolean is one byte, 0 or 1, not {bytes(data[:8])!r}")


def _nothing(value: None) -> bytes | None:
    raise TypeError(f"nothing but None can be sent here, not {type(value).__name__}")


def _from_nothing(data: bytes) -> None:
    raise ValueError(f"nothing is expected here, and there are {len(data)} bytes")


# The default serde of clients.
AS_GIVEN: Plain[bytes] = Plain("as given", _as_given, _same)

BYTES: Plain[bytes] = Plain("bytes", _bytes, _same)
STRING: Plain[str] = Plain("string", _text, _from_text)
INTEGER: Plain[int] = _whole("integer", "i")
LONG: Plain[int] = _whole("long", "q")
SHORT: Plain[int] = _whole("short", "h")
FLOAT: Plain[float] = _real("float", "f")
DOUBLE: Plain[float] = _real("double", "d")
UUID_TEXT: Plain[UUID] = Plain("uuid", _uuid_text, _from_uuid_text)
BOOLEAN: Plain[bool] = Plain("boolean", _truth, _from_truth)
VOID: Plain[None] = Plain("void", _nothing, _from_nothing)
