"""Which keys of a partition have records that wait for another attempt, and in which order.

With `ordered`, a record is tried only if no earlier record of its key waits. The state of one
source partition is restored from the compacted topic beside the source. That topic has one record
per waiting record, named by offset and key, so the cost of a change does not grow.

Pure: methods return the record to write; a change counts for others once it is committed.
"""

import struct
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

# Beyond these a record goes to the dead letters, to bound memory and the time of a restart.
WAITING_PER_KEY_MAX = 100_000
WAITING_MAX = 1_000_000

_OFFSET = struct.Struct(">q")
_WAITS = b"waits"


class TooManyWait(Exception):
    """The limit of waiting records is reached."""


class NotPending(ValueError):
    """A record of the compacted topic does not name an offset and a key."""


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A record for the compacted topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class PendingKeys:
    """Waiting records of one source partition, by key."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, list[int]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many records wait."""
        return self._count

    @property
    def keys(self) -> int:
        return len(self._waiting)

    # -- questions

    def may_try(self, key: bytes, offset: int) -> bool:
        """Return whether no record of this key before `offset` waits."""
        waiting = self._waiting.get(key)
        return waiting is None or offset <= waiting[0]

    def waits(self, key: bytes, offset: int) -> bool:
        """Return whether the record at `offset` waits."""
        waiting = self._waiting.get(key, [])
        at = bisect_left(waiting, offset)
        return at < len(waiting) and waiting[at] == offset

    # -- changes: applied here at once, written in the transaction of their cause

    def add(self, key: bytes, offset: int) -> PendingChange | None:
        """Add a waiting record; return None if it waited already. Raise TooManyWait at the
        limit."""
        if self.waits(key, offset):
            return None
        waiting = self._waiting.get(key, [])
        if len(waiting) >= WAITING_PER_KEY_MAX:
            raise TooManyWait(f"{len(waiting)} records of its key wait already")
        if self._count >= WAITING_MAX:
            raise TooManyWait(f"{self._count} records of its partition wait already")
        self._put(key, offset)
        return PendingChange(_OFFSET.pack(offset) + key, _WAITS)

    def remove(self, key: bytes, offset: int) -> PendingChange | None:
        """Remove a record that succeeded or is dead; return None if it did not wait."""
        if not self.waits(key, offset):
            return None
        self._drop(key, offset)
        return PendingChange(_OFFSET.pack(offset) + key, None)

    def undo(self, change: PendingChange) -> None:
        """Revert a change whose cause was undone."""
        was = _WAITS if change.value is None else None
        self.restore([(change.key, was)])

    def restore(self, changes: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Apply records of the compacted topic, in their order; raise NotPending for others."""
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
