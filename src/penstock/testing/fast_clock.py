"""The loop of an embedded node, whose clock a test may put forward."""

from penstock.real.loop import Loop


class FastClockLoop(Loop):
    """A loop whose two clocks run normally and can jump forward."""

    def __init__(self, ahead_ms: float = 0.0) -> None:
        super().__init__()
        self._ahead_ms = ahead_ms

    def leap_ms(self, duration_ms: float) -> None:
        """Put the clocks forward, on the loop; timers due by then run in the next turn."""
        assert duration_ms >= 0, "time does not run backwards"
        self._ahead_ms += duration_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self._ahead_ms)

    def mono_ms(self) -> float:
        return super().mono_ms() + self._ahead_ms
