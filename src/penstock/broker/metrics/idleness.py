"""How much of its time the loop has nothing to do; from the time its thread has used."""

from collections import deque

from penstock.world import Vitals

RECENT_MS = 60_000.0  # what it tells of, if somebody has looked before
MARK_MS = 5_000.0


class Idleness:
    """Measured between looks."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque()  # (steady clock, seconds of the thread)

    def measure(self, vitals: Vitals, now_ms: float) -> float | None:
        """The idle part, 0 to 1; None before there is something to measure."""
        used = vitals.loop_cpu_seconds
        if used is None:
            return None
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_ms - RECENT_MS:
            marks.popleft()
        if not marks or now_ms - marks[-1][0] >= MARK_MS:
            marks.append((now_ms, used))
        at_ms, before = marks[0]
        if now_ms <= at_ms:
            return None
        return min(1.0, max(0.0, 1.0 - (used - before) * 1000 / (now_ms - at_ms)))
