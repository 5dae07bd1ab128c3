"""A rate over the last seconds, in samples, as Kafka measures the rate that a quota limits."""

from collections import deque


class SampledRate:
    """The sum of what was counted in the last `samples` windows, per second.

    A young rate counts as if it had all windows but one: a burst after a pause is averaged over
    them, too.
    """

    __slots__ = ("_kept", "_samples", "_window_ms")

    def __init__(self, samples: int, window_ms: float) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._kept: deque[list[float]] = deque()  # beginning and sum of each, the oldest first

    def add(self, value: float, now_ms: float) -> None:
        kept = self._kept
        if not kept or now_ms - kept[-1][0] >= self._window_ms:
            kept.append([now_ms, value])
            self._forget(now_ms)
        else:
            kept[-1][1] += value

    def per_second(self, now_ms: float) -> float:
        self._forget(now_ms)
        total = sum(each[1] for each in self._kept)
        return total * 1000 / self.window_ms(now_ms)

    def window_ms(self, now_ms: float) -> float:
        """Return the time that the rate is measured over."""
        elapsed = now_ms - self._kept[0][0] if self._kept else 0.0
        missing = self._samples - 1 - int(elapsed // self._window_ms)
        if missing > 0:
            elapsed += missing * self._window_ms
        return elapsed or self._window_ms

    def wait_ms(self, limit: float, now_ms: float) -> float:
        """Return how long nothing may come until the rate is down at the limit; 0 below it."""
        rate = self.per_second(now_ms)
        if rate <= limit:
            return 0.0
        return (rate - limit) / limit * self.window_ms(now_ms)

    def is_idle(self, now_ms: float) -> bool:
        self._forget(now_ms)
        return not self._kept

    def _forget(self, now_ms: float) -> None:
        kept, oldest_ms = self._kept, now_ms - self._samples * self._window_ms
        while kept and kept[0][0] <= oldest_ms:
            kept.popleft()
