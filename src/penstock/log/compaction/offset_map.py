"""Which offset is the newest of a key: 24 bytes per key, in one array that does not grow.

A key is known by 128 bits of a hash alone; two keys with the same are the same key, as in Kafka.
Open addressing, one place after the other. A row is (hash, hash, offset + 1); a row whose last
number is 0 is free. How a key is hashed is the affair of whoever fills the map (plain.py with
hashlib, compiled.py with SipHash): one map is never used by both.
"""

import numpy as np
from numpy.typing import NDArray

from penstock.log.compaction.order import MAP_BYTES_PER_KEY, CompactionRefused

ROW_FIELDS = 3
_OFFSET = 2
_HALF_BITS = np.uint64(32)
# Places are found with 32 bits of the hash.
_SLOTS_MAX = 2**32 - 1

Hashes = NDArray[np.uint64]
Offsets = NDArray[np.int64]


class OffsetMap:
    """Filled in the order of the log; `limit` keys at most."""

    def __init__(self, bytes_max: int, load_max: float, seed: int = 0) -> None:
        self.slots = min(bytes_max // MAP_BYTES_PER_KEY, _SLOTS_MAX)
        self.limit = int(self.slots * load_max)
        if self.limit < 1:
            raise CompactionRefused(
                f"an offset map of {bytes_max} bytes holds no key at all: raise"
                " log.cleaner.dedupe.buffer.size or lower log.cleaner.threads"
            )
        self.seed = seed
        self.table = np.zeros((self.slots, ROW_FIELDS), np.uint64)
        self.size = 0

    def newest(self, hashes: Hashes) -> Offsets:
        """The offset of each key; -1 for those that are not in the map."""
        found = np.full(len(hashes), -1, np.int64)
        waiting = np.arange(len(hashes))
        places = self._places(hashes)
        while len(waiting):
            rows = self.table[places]
            taken = rows[:, _OFFSET] != 0
            same = taken & (rows[:, :2] == hashes[waiting]).all(axis=1)
            found[waiting[same]] = rows[same, _OFFSET].astype(np.int64) - 1
            further = taken & ~same
            waiting, places = waiting[further], self._after(places[further])
        return found

    def put_all(self, hashes: Hashes, offsets: Offsets) -> int:
        """Note keys whose offsets rise; how many, from the first, until one has no room."""
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
        # Of a key that comes more than once the last one counts: np.unique finds the first.
        _, last = np.unique(hashes[::-1], axis=0, return_index=True)
        waiting = np.sort(len(hashes) - 1 - last)
        places = self._places(hashes[waiting])
        while len(waiting):
            rows = self.table[places]
            free = rows[:, _OFFSET] == 0
            same = ~free & (rows[:, :2] == hashes[waiting]).all(axis=1)
            self.table[places[same], _OFFSET] = (offsets[waiting[same]] + 1).astype(np.uint64)
            # Several may want one free place: the first gets it, the others look again.
            _, first = np.unique(places[free], return_index=True)
            won = np.nonzero(free)[0][first]
            self.table[places[won], :2] = hashes[waiting[won]]
            self.table[places[won], _OFFSET] = (offsets[waiting[won]] + 1).astype(np.uint64)
            self.size += len(won)
            further = ~same
            further[won] = False
            lost = free[further]
            waiting, places = waiting[further], places[further]
            places = np.where(lost, places, self._after(places))

    def _places(self, hashes: Hashes) -> Offsets:
        places = (hashes[:, 0] >> _HALF_BITS) * np.uint64(self.slots) >> _HALF_BITS
        return places.astype(np.int64)

    def _after(self, places: Offsets) -> Offsets:
        following: Offsets = (places + 1) % self.slots
        return following
