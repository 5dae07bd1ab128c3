"""Decodes damaged batches that end where memory ends: run as a process of its own, which the
operating system kills if one byte too many is read.

Arguments: the implementation, a seed, how many batches.
"""

import ctypes
import mmap
import sys
from random import Random

from bulk_records import decoder
from damaged_batches import damaged_batch

from penstock.wire.primitives import Malformed

NO_ACCESS = 0


def main(implementation: str, seed: int, count: int) -> None:
    random = Random(seed)
    libc = ctypes.CDLL(None, use_errno=True)
    room = 64 * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    locked = libc.mprotect(ctypes.c_void_p(start + room), mmap.PAGESIZE, NO_ACCESS)
    assert locked == 0, ctypes.get_errno()
    one = decoder(implementation)
    refused = 0
    for _ in range(count):
        data = damaged_batch(random)
        memory[room - len(data) : room] = data
        try:
            one.decode(memoryview(memory)[room - len(data) : room], 0, 2**62)
        except Malformed:
            refused += 1
    print(f"{refused} of {count} refused")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
