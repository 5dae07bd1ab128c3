"""A bucket of tokens: bursts are free until it is empty, then a debt has to be waited for."""


class TokenBucket:
    """Tokens come at a rate; at most those of `seconds` are kept. A request takes all it needs if
    the bucket is not in debt, and may leave it in debt."""

    __slots__ = ("_at_ms", "_rate", "_seconds", "_tokens")

    def __init__(self, rate: float, seconds: float, now_ms: float) -> None:
        self._rate = rate
        self._seconds = seconds
        self._tokens = rate * seconds
        self._at_ms = now_ms

    def use(self, rate: float) -> None:
        """Fill at another rate from now on."""
        self._rate = rate
        self._tokens = min(self._tokens, rate * self._seconds)

    def take(self, tokens: float, now_ms: float) -> None:
        self._fill(now_ms)
        self._tokens -= tokens

    def wait_ms(self, now_ms: float) -> float:
        """Return how long the debt lasts; 0 without one."""
        self._fill(now_ms)
        return max(0.0, -self._tokens / self._rate * 1000)

    def is_full(self, now_ms: float) -> bool:
        self._fill(now_ms)
        return self._tokens >= self._rate * self._seconds

    def _fill(self, now_ms: float) -> None:
        gained = (now_ms - self._at_ms) * self._rate / 1000
        self._tokens = min(self._rate * self._seconds, self._tokens + gained)
        self._at_ms = now_ms
