"""The newest offset of each key: 24 bytes per key, in one array of fixed size.

A key is known by a hash of 128 bits; two keys with equal hashes count as one key, as in Kafka. Open
addressing with linear probing. A row is (hash, hash, offset + 1); a row whose last number is 0 is
free. The engine chooses the hash (plain.py hashlib, compiled.py SipHash): engines never share a
map.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.log.compaction.order import MAP_BYTES_PER_KEY, CompactionRejected

ROW_FIELDS = 3
_OFFSET = 2
_HALF_BITS = np.uint64(32)
# Slots are found with 32 bits of the hash.
_SLOTS_MAX = 2**32 - 1

Hashes = NDArray[np.uint64]
Offsets = NDArray[np.int64]


class OffsetMap:
    """A map of at most `limit` keys, filled in the order of the log."""

    def __init__(self, bytes_max: int, load_max: float, seed: int = 0) -> None:
        self.slots = min(bytes_max // MAP_BYTES_PER_KEY, _SLOTS_MAX)
        self.limit = int(self.slots * load_max)
        if self.limit < 1:
            raise CompactionRejected(
                f"an offset map of {bytes_max} bytes holds no key at all: raise"
                " log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
            )
        self.seed = seed
        self.table = np.zeros((self.slots, ROW_FIELDS), np.uint64)
        self.size = 0

    def newest(self, hashes: Hashes) -> Offsets:
        """Return the offset of each key; -1 for missing keys."""
        found = np.full(len(hashes), -1, np.int64)
        waiting = np.arange(len(hashes))
        slots = self._slots(hashes)
        while len(waiting):
            rows = self.table[slots]
            taken = rows[:, _OFFSET] != 0
            same = taken & (rows[:, :2] == hashes[waiting]).all(axis=1)
            found[waiting[same]] = rows[same, _OFFSET].astype(np.int64) - 1
            further = taken & ~same
            waiting, slots = waiting[further], self._after(slots[further])
        return found

    def put_all(self, hashes: Hashes, offsets: Offsets) -> int:
        """Note keys with rising offsets; return how many had room."""
        if self.size + len(hashes) <= self.limit:
            self._put(hashes, offsets)
            return len(hashes)
        for index in range(len(hashes)):
            one = slice(index, index + 1)
            if self.size >= self.limit and self.newest(hashes[one])[0] < 0:
                return index
            self._put(hashes[one], offsets[one])
        return len(hashes)

    def _put(self, hashes: Hashes, offsets: Offsets) -> None:
        # The last of several equal keys counts; np.unique returns the first.
        _, last = np.unique(hashes[::-1], axis=0, return_index=True)
        waiting = np.sort(len(hashes) - 1 - last)
        slots = self._slots(hashes[waiting])
        while len(waiting):
            rows = self.table[slots]
            free = rows[:, _OFFSET] == 0
            same = ~free & (rows[:, :2] == hashes[waiting]).all(axis=1)
            self.table[slots[same], _OFFSET] = (offsets[waiting[same]] + 1).astype(np.uint64)
            # If several keys want one free slot, the first gets it and the others probe again.
            _, first = np.unique(slots[free], return_index=True)
            won = np.nonzero(free)[0][first]
            self.table[slots[won], :2] = hashes[waiting[won]]
            self.table[slots[won], _OFFSET] = (offsets[waiting[won]] + 1).astype(np.uint64)
            self.size += len(won)
            further = ~same
            further[won] = False
            lost = free[further]
            waiting, slots = waiting[further], slots[further]
            slots = np.where(lost, slots, self._after(slots))

    def _slots(self, hashes: Hashes) -> Offsets:
        slots = (hashes[:, 0] >> _HALF_BITS) * np.uint64(self.slots) >> _HALF_BITS
        return slots.astype(np.int64)

    def _after(self, slots: Offsets) -> Offsets:
        following: Offsets = (slots + 1) % self.slots
        return following
