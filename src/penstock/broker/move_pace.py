"""Whether a move comes closer to its end, and when somebody should be told that it does not."""

STUCK_MS = 5 * 60_000  # so long without coming closer
SAID_AGAIN_MS = 30 * 60_000


class Pace:
    """What was missing so far, at the least. Reads no clock."""

    def __init__(self, now_ms: float) -> None:
        self._least_bytes: int | None = None
        self._closer_ms = now_ms  # when there was last so little missing as never before
        self._said_ms = -float(SAID_AGAIN_MS)
        self._said_hold_ms = -float(SAID_AGAIN_MS)

    def is_to_be_told(self, now_ms: float, missing_bytes: int) -> bool:
        """True once in a while as long as it is stuck."""
        if self._least_bytes is None or missing_bytes < self._least_bytes:
            self._least_bytes = missing_bytes
            self._closer_ms = now_ms
        if not self.is_stuck(now_ms) or now_ms - self._said_ms < SAID_AGAIN_MS:
            return False
        self._said_ms = now_ms
        return True

    def is_stuck(self, now_ms: float) -> bool:
        return now_ms - self._closer_ms >= STUCK_MS

    def stuck_minutes(self, now_ms: float) -> int:
        return int(now_ms - self._closer_ms) // 60_000

    def is_hold_to_be_told(self, now_ms: float) -> bool:
        """Producers have waited too long: True once in a while."""
        if now_ms - self._said_hold_ms < SAID_AGAIN_MS:
            return False
        self._said_hold_ms = now_ms
        return True
