"""Byte operations of kernels.py: numbers, varints and checksums."""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.bulk.compiler import (
    as_index,
    as_int,
    cgutils,
    extending,
    inlined,
    numba,
    types,
)

# llvmlite has no types.
ir: Any = import_module("llvmlite.ir")
llvm: Any = import_module("llvmlite.binding")

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

# A position beyond any other: the bytes ended too early. Later steps keep this value.
BAD = 1 << 62
LONG_MAX = 2**63 - 1
_SHIFTED_MAX = 2**57 - 1  # the largest value that fits 64 bits after a shift by 7
_VARLONG_SHIFT_MAX = 63

_8, _16, _24, _32, _40, _48, _56 = map(np.uint64, (8, 16, 24, 32, 40, 48, 56))
_CRC_BITS = np.uint64(0xFFFFFFFF)
_BYTE = np.uint64(0xFF)
as_word = cast("Callable[[object], np.uint64]", np.uint64)


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    return cast("Callable[..., Any]", extending.intrinsic(function))


@intrinsic
def word_at(typing_context: Any, source: Any, position: Any) -> Any:
    """Return eight bytes as a little-endian number."""
    del typing_context, position
    signature = types.uint64(source, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        origin = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(origin.data, [arguments[1]])
        load = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        load.align = 1
        return load if sys.byteorder == "little" else builder.bswap(load)

    return signature, generate


@intrinsic
def _crc_instruction(typing_context: Any, state: Any, word: Any) -> Any:
    """Add eight bytes to a CRC32C with the processor's instruction."""
    del typing_context, state, word
    signature = types.uint64(types.uint64, types.uint64)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(64)])
        name = "llvm.x86.sse42.crc32.64.64"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return signature, generate


def _has_crc_instruction() -> bool:
    """Check the target processor, which NUMBA_CPU_NAME may set to another than this one."""
    if numba.config.CPU_NAME or numba.config.CPU_FEATURES:
        return False
    return bool(llvm.get_host_cpu_features().get("sse4.2"))


def _crc_tables() -> Words:
    """Return the CRC32C tables for eight consecutive bytes."""
    tables = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
        tables[0, byte] = state
    for row in range(1, 8):
        before = tables[row - 1]
        tables[row] = before >> np.uint64(8) ^ tables[0, (before & np.uint64(0xFF)).astype(int)]
    return tables


_CRC = _crc_tables()


@inlined
def crc_by_tables(state: Any, word: Any) -> Any:
    rest = word ^ state
    return (
        _CRC[7, as_index(rest & _BYTE)]
        ^ _CRC[6, as_index(rest >> _8 & _BYTE)]
        ^ _CRC[5, as_index(rest >> _16 & _BYTE)]
        ^ _CRC[4, as_index(rest >> _24 & _BYTE)]
        ^ _CRC[3, as_index(rest >> _32 & _BYTE)]
        ^ _CRC[2, as_index(rest >> _40 & _BYTE)]
        ^ _CRC[1, as_index(rest >> _48 & _BYTE)]
        ^ _CRC[0, as_index(rest >> _56)]
    )


crc_of_word = _crc_instruction if _has_crc_instruction() else crc_by_tables


@inlined
def checksum_of(source: Bytes, start: int, end: int) -> int:
    state: Any = _CRC_BITS
    position = start
    while position + 8 <= end:
        state = crc_of_word(state, word_at(source, position))
        position += 8
    while position < end:
        byte = as_word(source[as_index(position)])
        state = _CRC[0, as_index((state ^ byte) & _BYTE)] ^ state >> _8
        position += 1
    return as_int(state ^ _CRC_BITS)


@inlined
def number_at(source: Bytes, position: int, size: int) -> int:
    """Return the big-endian number of `size` bytes; unsigned below 8 bytes."""
    value = 0
    for place in range(size):
        value = value << 8 | as_int(source[as_index(position + place)])
    return value


@inlined
def put_number(out: Bytes, position: int, size: int, value: int) -> None:
    for place in range(size):
        out[as_index(position + place)] = value >> (8 * (size - 1 - place)) & 0xFF


@inlined
def varint_at(source: Bytes, position: int, end: int) -> tuple[int, int]:
    """Return the value and the position after it, or BAD."""
    if position >= end:
        return 0, BAD
    byte = as_int(source[as_index(position)])
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while shift <= _VARLONG_SHIFT_MAX and position < end:
        byte = as_int(source[as_index(position)])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & LONG_MAX) ^ -(value & 1), position
        shift += 7
    return 0, BAD


@inlined
def put_varint(out: Bytes, position: int, value: int) -> int:
    """Write a varint; return the position after it."""
    rest = (value << 1) ^ (value >> 63)
    while rest < 0 or rest > 0x7F:
        out[as_index(position)] = rest & 0x7F | 0x80
        rest = (rest >> 7) & _SHIFTED_MAX
        position += 1
    out[as_index(position)] = rest
    return position + 1


@inlined
def size_of_varint(value: int) -> int:
    rest = (value << 1) ^ (value >> 63)
    size = 1
    while rest < 0 or rest > 0x7F:
        rest = (rest >> 7) & _SHIFTED_MAX
        size += 1
    return size
