"""Key operations of kernels.py: the hash, and the slot in the map."""

from typing import Any

import numpy as np

from penstock.bulk.compiler import as_index, as_int, cgutils, inlined, types
from penstock.log.compaction.kernel_bytes import Bytes, Words, as_word, intrinsic, ir, word_at
from penstock.log.compaction.offset_map import ROW_FIELDS

_0, _13, _16, _17, _21, _32, _56, _64 = map(np.uint64, (0, 13, 16, 17, 21, 32, 56, 64))
_EE, _DD = np.uint64(0xEE), np.uint64(0xDD)
_SIP_0, _SIP_1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_SIP_2, _SIP_3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)


@inlined
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = (v1 << _13 | v1 >> (_64 - _13)) ^ v0
    v0 = v0 << _32 | v0 >> _32
    v2 = v2 + v3
    v3 = (v3 << _16 | v3 >> (_64 - _16)) ^ v2
    v0 = v0 + v3
    v3 = (v3 << _21 | v3 >> (_64 - _21)) ^ v0
    v2 = v2 + v1
    v1 = (v1 << _17 | v1 >> (_64 - _17)) ^ v2
    v2 = v2 << _32 | v2 >> _32
    return v0, v1, v2, v3


@inlined
def siphash(source: Bytes, start: int, size: int, seed: Any) -> Any:
    v0, v1 = seed[0] ^ _SIP_0, seed[1] ^ _SIP_1 ^ _EE
    v2, v3 = seed[0] ^ _SIP_2, seed[1] ^ _SIP_3
    position, whole = start, start + (size & ~7)
    while position < whole:
        word = word_at(source, position)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 = v0 ^ word
        position += 8
    word = as_word(size) << _56
    for place in range(size & 7):
        word = word | as_word(source[as_index(whole + place)]) << as_word(8 * place)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    v0, v2 = v0 ^ word, v2 ^ _EE
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 = v1 ^ _DD
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@intrinsic
def fetch_row(typing_context: Any, keys: Any, slot: Any) -> Any:
    """Prefetch a row of the map, to overlap the memory access with other work."""
    del typing_context, slot
    signature = types.void(keys, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = context.make_array(signature.args[0])(context, builder, arguments[0])
        row = builder.mul(arguments[1], ir.Constant(arguments[1].type, ROW_FIELDS))
        place = builder.bitcast(builder.gep(table.data, [row]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # Arguments: for writing, for all cache levels, data.
        builder.call(prefetch, [place, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return signature, generate


@inlined
def slot_of(keys: Words, hash_0: Any) -> int:
    return as_int((hash_0 >> _32) * as_word(len(keys)) >> _32)


@inlined
def find_key(keys: Words, hash_0: Any, hash_1: Any) -> int:
    """Return the slot of a key, or the free slot for a missing key."""
    slot = slot_of(keys, hash_0)
    while keys[as_index(slot), 2] != _0 and (
        keys[as_index(slot), 0] != hash_0 or keys[as_index(slot), 1] != hash_1
    ):
        slot += 1
        if slot == len(keys):
            slot = 0
    return slot
