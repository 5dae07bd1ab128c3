"""The session of a connection that has logged in by SASL (KIP-368).

A session may have an end. Beyond it only a SaslHandshake is served, which begins another login;
during that login only SaslAuthenticate is.
"""

from math import inf

from penstock.security.login.login import LoginExchange

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
LOGIN_AGAIN_MS_MIN = 1_000  # between two later logins of a connection, as in Kafka


class SaslSession:
    """The last login of a connection."""

    __slots__ = ("_again_ms", "by_token", "ends_ms", "exchange", "mechanism", "name")

    def __init__(
        self, mechanism: str, name: str, *, by_token: bool, began_ms: float, lifetime_ms: float
    ) -> None:
        """Begin a session; `lifetime_ms` is inf for one without an end."""
        self.mechanism = mechanism
        self.name = name
        self.by_token = by_token
        self.exchange: LoginExchange | None = None  # another login, in progress
        self.ends_ms = began_ms + lifetime_ms
        self._again_ms = -inf  # when the last later login began

    def begin_again(self, exchange: LoginExchange, now_ms: float) -> None:
        self.exchange = exchange
        self._again_ms = now_ms

    def prolong(self, now_ms: float, lifetime_ms: float) -> None:
        """End another login, from which the lifetime counts."""
        self.ends_ms = now_ms + lifetime_ms
        self.exchange = None

    def admits(self, api_key: int, now_ms: float) -> bool:
        """Return whether a request may be served."""
        if self.exchange is not None:
            return api_key == SASL_AUTHENTICATE
        return now_ms < self.ends_ms or api_key == SASL_HANDSHAKE

    def may_log_in_again(self, now_ms: float) -> bool:
        """Return whether another login may begin: the session has an end, and the last later login
        is not too recent."""
        return self.ends_ms < inf and now_ms >= self._again_ms + LOGIN_AGAIN_MS_MIN
