"""Idempotency keys of handled records of one source partition, kept for a window of time.

A key older than the window is removed. If there are too many keys, the oldest is removed early,
so that memory stays bounded.
"""

from collections import OrderedDict

KEYS_MAX = 1_000_000


class IdempotencyKeys:
    """Keys with the time of their handling; `window_ms` counts from that time."""

    def __init__(self, window_ms: int, keys_max: int = KEYS_MAX) -> None:
        self._window_ms = window_ms
        self._keys_max = keys_max
        self._handled_ms: OrderedDict[bytes, int] = OrderedDict()
        self.forgotten_early = 0  # within their window, because the limit was reached

    def __len__(self) -> int:
        return len(self._handled_ms)

    def holds(self, key: bytes, now_ms: int) -> bool:
        handled_ms = self._handled_ms.get(key)
        return handled_ms is not None and now_ms - handled_ms < self._window_ms

    def add(self, key: bytes, handled_ms: int, now_ms: int) -> None:
        """Add a key that was handled or restored; drop the key if its window is over."""
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
