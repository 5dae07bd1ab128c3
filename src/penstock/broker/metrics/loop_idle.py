"""The idle part of the loop's time, from the processor time of its thread."""

from collections import deque

from penstock.world import ProcessStats

RECENT_MS = 60_000.0  # the measured time, if there were looks before
MARK_MS = 5_000.0


class LoopIdle:
    """Measured between looks."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque()  # (steady clock, seconds of the thread)

    def measure(self, vitals: ProcessStats, now_ms: float) -> float | None:
        """Return the idle part, 0 to 1; None before two looks."""
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
