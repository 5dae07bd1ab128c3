"""Idempotency keys of what was handled, remembered for a window of time.

Of one source partition. A key that is older than the window is forgotten; so is the oldest when
there are too many, since a guard without a bound would be the end of its process.
"""

from collections import OrderedDict

KEYS_MAX = 1_000_000


class Seen:
    """`window_ms` counts from the moment at which a record was handled."""

    def __init__(self, window_ms: int, keys_max: int = KEYS_MAX) -> None:
        self._window_ms = window_ms
        self._keys_max = keys_max
        self._handled_ms: OrderedDict[bytes, int] = OrderedDict()
        self.forgotten_early = 0  # within their window, for want of room

    def __len__(self) -> int:
        return len(self._handled_ms)

    def holds(self, key: bytes, now_ms: int) -> bool:
        handled_ms = self._handled_ms.get(key)
        return handled_ms is not None and now_ms - handled_ms < self._window_ms

    def add(self, key: bytes, handled_ms: int, now_ms: int) -> None:
        """Noted, or read back; one that is too old already is not kept."""
        self._handled_ms[key] = handled_ms
        self._handled_ms.move_to_end(key)
        self._forget(now_ms)

    def _forget(self, now_ms: int) -> None:
        while self._handled_ms:
            key, handled_ms = next(iter(self._handled_ms.items()))
            old = now_ms - handled_ms >= self._window_ms
            if not old and len(self._handled_ms) <= self._keys_max:
                return
            del self._handled_ms[key]
            self.forgotten_early += not old
