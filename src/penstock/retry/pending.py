"""Which keys of a partition have records that wait for another attempt, and in which order.

Where the order of a key has to be kept, a record may be tried only if none of its key that came
before it still waits. The state of one source partition, rebuilt from the compacted topic that
stands beside it: one record there for each that waits, named by its offset and its key, so that a
change costs the same however many wait.

Pure: what has to be written is returned, and counts for others once it is committed.
"""

import struct
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

# Beyond these a record goes to the dead letters: memory and the time of a restart are bounded.
WAITING_PER_KEY_MAX = 100_000
WAITING_MAX = 1_000_000

_OFFSET = struct.Struct(">q")
_WAITS = b"waits"


class TooManyWait(Exception):
    """There is no room for one more record that waits."""


class NotPending(ValueError):
    """What was read from the compacted topic is none of its records."""


@dataclass(frozen=True, slots=True)
class Change:
    """A record for the compacted topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class Pending:
    """Of one source partition."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Records that wait."""
        return self._count

    @property
    def keys(self) -> int:
        return len(self._waiting)

    # -- questions

    def may_try(self, key: bytes, offset: int) -> bool:
        """Whether none of this key that came before `offset` still waits."""
        waiting = self._waiting.get(key)
        return waiting is None or offset <= waiting[0]

    def waits(self, key: bytes, offset: int) -> bool:
        """Whether this very record is known to wait."""
        waiting = self._waiting.get(key, [])
        at = bisect_left(waiting, offset)
        return at < len(waiting) and waiting[at] == offset

    # -- changes: they count here at once, and are written with what caused them

    def add(self, key: bytes, offset: int) -> Change | None:
        """The record at `offset` waits from now on; None if it did before. TooManyWait if there
        are too many."""
        if self.waits(key, offset):
            return None
        waiting = self._waiting.get(key, [])
        if len(waiting) >= WAITING_PER_KEY_MAX:
            raise TooManyWait(f"{len(waiting)} records of its key wait already")
        if self._count >= WAITING_MAX:
            raise TooManyWait(f"{self._count} records of its partition wait already")
        self._put(key, offset)
        return Change(_OFFSET.pack(offset) + key, _WAITS)

    def remove(self, key: bytes, offset: int) -> Change | None:
        """It succeeded, or is dead; None if it did not wait."""
        if not self.waits(key, offset):
            return None
        self._drop(key, offset)
        return Change(_OFFSET.pack(offset) + key, None)

    def undo(self, change: Change) -> None:
        """What caused this change did not happen."""
        was = _WAITS if change.value is None else None
        self.restore([(change.key, was)])

    def restore(self, changes: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """What the compacted topic holds, in its order. NotPending if it is something else."""
        for name, value in changes:
            if name is None or len(name) < _OFFSET.size:
                raise NotPending(f"{name!r} does not name an offset and a key")
            key, offset = name[_OFFSET.size :], _OFFSET.unpack_from(name)[0]
            if self.waits(key, offset):
                self._drop(key, offset)
            if value is not None:
                self._put(key, offset)

    def _put(self, key: bytes, offset: int) -> None:
        insort(self._waiting.setdefault(key, []), offset)
        self._count += 1

    def _drop(self, key: bytes, offset: int) -> None:
        waiting = self._waiting[key]
        del waiting[bisect_left(waiting, offset)]
        self._count -= 1
        if not waiting:
            del self._waiting[key]
