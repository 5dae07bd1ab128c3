"""Detects a move that comes no closer to its end, and limits the warnings about it."""

STUCK_MS = 5 * 60_000  # so long without coming closer
REPEAT_MS = 30 * 60_000


class StallDetector:
    """The least number of bytes missing so far. Reads no clock."""

    def __init__(self, now_ms: float) -> None:
        self._least_bytes: int | None = None
        self._closer_ms = now_ms  # when there was last so little missing as never before
        self._warned_ms = -float(REPEAT_MS)
        self._warned_hold_ms = -float(REPEAT_MS)

    def should_warn(self, now_ms: float, missing_bytes: int) -> bool:
        """Return True from time to time while the move is stuck."""
        if self._least_bytes is None or missing_bytes < self._least_bytes:
            self._least_bytes = missing_bytes
            self._closer_ms = now_ms
        if not self.is_stuck(now_ms) or now_ms - self._warned_ms < REPEAT_MS:
            return False
        self._warned_ms = now_ms
        return True

    def is_stuck(self, now_ms: float) -> bool:
        return now_ms - self._closer_ms >= STUCK_MS

    def stuck_minutes(self, now_ms: float) -> int:
        return int(now_ms - self._closer_ms) // 60_000

    def should_warn_of_hold(self, now_ms: float) -> bool:
        """Return True from time to time for producers that waited too long."""
        if now_ms - self._warned_hold_ms < REPEAT_MS:
            return False
        self._warned_hold_ms = now_ms
        return True
