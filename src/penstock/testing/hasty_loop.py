"""The loop of an embedded node, whose clock a test may put forward."""

from penstock.real.loop import Loop


class HastyLoop(Loop):
    """Both clocks run as they always do, and leap when they are told to."""

    def __init__(self, ahead_ms: float = 0.0) -> None:
        super().__init__()
        self._ahead_ms = ahead_ms

    def leap_ms(self, duration_ms: float) -> None:
        """To be called on the loop; timers that are due by then run in the next turn."""
        assert duration_ms >= 0, "time does not run backwards"
        self._ahead_ms += duration_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self._ahead_ms)

    def mono_ms(self) -> float:
        return super().mono_ms() + self._ahead_ms
