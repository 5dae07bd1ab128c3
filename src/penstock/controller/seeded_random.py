"""Chance for a machine that may not roll dice: everything follows from the event's seed.

The shell draws the seed; the same event leads to the same decision on every node.
"""

from hashlib import blake2b
from typing import TypeVar

from penstock.model import id_to_text

T = TypeVar("T")


class SeededRandom:
    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._drawn = 0

    def _draw(self) -> bytes:
        self._drawn += 1
        key = self._drawn.to_bytes(8, "big")
        return blake2b(self._seed, digest_size=16, key=key).digest()

    def uuid(self) -> bytes:
        """Return a version-4 UUID that is none of Kafka's reserved ids and is easy to type."""
        while True:
            value = bytearray(self._draw())
            value[6] = value[6] & 0x0F | 0x40
            value[8] = value[8] & 0x3F | 0x80
            # An id that starts with '-' looks like an option to every command line tool.
            if not id_to_text(bytes(value)).startswith("-"):
                return bytes(value)

    def below(self, limit: int) -> int:
        return int.from_bytes(self._draw(), "big") % limit

    def shuffle(self, items: list[T]) -> None:
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
