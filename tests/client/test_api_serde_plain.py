"""Numbers, text, UUIDs and truth values are byte for byte what Java's serializers write.

The bytes were written by the serializers of kafka-clients 4.3.1.
"""

import math
import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import serde
from penstock.serde import Plain, SerdeRefused

FROM_JAVA: list[tuple[Plain[Any], Any, str]] = [
    (serde.INTEGER, 0, "00000000"),
    (serde.INTEGER, 1, "00000001"),
    (serde.INTEGER, -1, "ffffffff"),
    (serde.INTEGER, 42, "0000002a"),
    (serde.INTEGER, 2147483647, "7fffffff"),
    (serde.INTEGER, -2147483648, "80000000"),
    (serde.LONG, 0, "0000000000000000"),
    (serde.LONG, -1, "ffffffffffffffff"),
    (serde.LONG, 1234567890123, "0000011f71fb04cb"),
    (serde.LONG, 9223372036854775807, "7fffffffffffffff"),
    (serde.LONG, -9223372036854775808, "8000000000000000"),
    (serde.SHORT, 0, "0000"),
    (serde.SHORT, -1, "ffff"),
    (serde.SHORT, 300, "012c"),
    (serde.SHORT, 32767, "7fff"),
    (serde.SHORT, -32768, "8000"),
    (serde.FLOAT, 0.0, "00000000"),
    (serde.FLOAT, -0.0, "80000000"),
    (serde.FLOAT, 1.5, "3fc00000"),
    (serde.FLOAT, -2.25, "c0100000"),
    (serde.FLOAT, math.inf, "7f800000"),
    (serde.DOUBLE, 0.1, "3fb999999999999a"),
    (serde.DOUBLE, -0.0, "8000000000000000"),
    (serde.DOUBLE, 1.7976931348623157e308, "7fefffffffffffff"),
    (serde.DOUBLE, 5e-324, "0000000000000001"),
    (serde.DOUBLE, -math.inf, "fff0000000000000"),
    (serde.STRING, "", ""),
    (serde.STRING, "abc", "616263"),
    (serde.STRING, "grüße €", "6772c3bcc39f6520e282ac"),
    (serde.STRING, "\U0001f600", "f09f9880"),
    (
        serde.UUID_TEXT,
        UUID("123e4567-e89b-12d3-a456-426614174000"),
        "31323365343536372d653839622d313264332d613435362d343236363134313734303030",
    ),
    (serde.BOOLEAN, True, "01"),
    (serde.BOOLEAN, False, "00"),
    (serde.string_in("UTF-16"), "grüße", "feff0067007200fc00df0065"),
    (serde.string_in("ISO-8859-1"), "grüße", "6772fcdf65"),
]


@pytest.mark.parametrize(("plain", "value", "hexadecimal"), FROM_JAVA)
def test_the_bytes_are_javas(plain: Plain[Any], value: Any, hexadecimal: str) -> None:
    data = plain.serialize("t", value, [])
    assert data == bytes.fromhex(hexadecimal)
    assert plain.deserialize("t", data, ()) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_comes_back(value: int) -> None:
    data = serde.LONG.encode(value)
    assert data is not None
    assert serde.LONG.decode(data) == value
    assert data == value.to_bytes(8, "big", signed=True)


@given(st.integers(-(2**31), 2**31 - 1))
def test_an_integer_comes_back(value: int) -> None:
    assert serde.INTEGER.decode(serde.INTEGER.encode(value) or b"") == value


@given(st.floats(allow_nan=False))
def test_a_double_comes_back(value: float) -> None:
    assert serde.DOUBLE.decode(serde.DOUBLE.encode(value) or b"") == value


@given(st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" ")))
def test_text_comes_back(value: str) -> None:
    assert serde.STRING.decode(serde.STRING.encode(value) or b"") == value


@given(st.text(st.characters(codec="utf-16-be")))
def test_text_comes_back_in_another_encoding(value: str) -> None:
    plain = serde.string_in("utf-16")
    assert plain.decode(plain.encode(value) or b"") == value


@given(st.uuids())
def test_a_uuid_comes_back(value: UUID) -> None:
    assert serde.UUID_TEXT.decode(serde.UUID_TEXT.encode(value) or b"") == value


@given(st.binary())
def test_bytes_stay_as_they_are(value: bytes) -> None:
    assert serde.BYTES.encode(value) is value
    assert serde.BYTES.decode(value) is value


@pytest.mark.parametrize("plain", [serde.BYTES, serde.AS_GIVEN])
@pytest.mark.parametrize("value", [bytearray(b"ab"), memoryview(b"ab")])
def test_other_buffers_are_bytes_as_well(plain: Plain[Any], value: Any) -> None:
    data = plain.encode(value)
    assert type(data) is bytes
    assert data == b"ab"


def test_without_a_serializer_text_is_utf_8() -> None:
    assert serde.AS_GIVEN.serialize("t", "grüße", []) == "grüße".encode()  # type: ignore[arg-type]
    assert serde.AS_GIVEN.deserialize("t", b"x", ()) == b"x"


def test_without_a_serializer_other_values_are_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"not dict; say which one, e\.g\. serde\.JSON"):
        serde.AS_GIVEN.encode({"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        (serde.INTEGER, 2**31),
        (serde.INTEGER, 1.5),
        (serde.LONG, 2**63),
        (serde.LONG, "7"),
        (serde.SHORT, -32769),
        (serde.FLOAT, 1e39),
        (serde.DOUBLE, "x"),
        (serde.STRING, b"x"),
        (serde.STRING, "\ud800"),
        (serde.BYTES, "x"),
        (serde.UUID_TEXT, "123e4567-e89b-12d3-a456-426614174000"),
        (serde.BOOLEAN, 1),
        (serde.VOID, 0),
    ],
)
def test_a_value_that_does_not_fit_is_refused(plain: Plain[Any], value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        plain.encode(value)


@pytest.mark.parametrize(
    ("plain", "data"),
    [
        (serde.INTEGER, b"\0\0\0"),
        (serde.INTEGER, b"\0\0\0\0\0"),
        (serde.LONG, b""),
        (serde.SHORT, b"\0"),
        (serde.FLOAT, b"\0" * 8),
        (serde.DOUBLE, b"\0" * 4),
        (serde.STRING, b"\xff"),
        (serde.UUID_TEXT, b"nonsense"),
        (serde.BOOLEAN, b"\2"),
        (serde.BOOLEAN, b"\1\1"),
        (serde.VOID, b"x"),
    ],
)
def test_bytes_that_are_something_else_are_refused(plain: Plain[Any], data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        plain.decode(data)


def test_a_wrong_size_says_which_size_it_should_be() -> None:
    with pytest.raises(ValueError, match="a long has 8 bytes, these are 4"):
        serde.LONG.decode(b"\0\0\0\1")


def test_an_encoding_that_is_none_is_refused() -> None:
    with pytest.raises(SerdeRefused, match="no encoding 'utf-99'"):
        serde.string_in("utf-99")


@given(st.floats(width=32, allow_nan=False))
def test_a_float_keeps_what_four_bytes_hold(value: float) -> None:
    data = serde.FLOAT.encode(value) or b""
    assert data == struct.pack(">f", value)
    assert serde.FLOAT.decode(data) == value
