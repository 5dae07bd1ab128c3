"""The login of a link by SASL, repeated before the session ends.

While a login is in progress, the requests of the link wait. Hashes of passwords are computed on
worker threads.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from penstock.credentials.mechanism import AuthenticationFailed, Exchange, Mechanism
from penstock.credentials.scram import encode_base64
from penstock.errors import IllegalSaslState
from penstock.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.wire.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.world import Clock, Entropy, Timer, Timers, Workers

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
HANDSHAKE_VERSION = 1  # SASL bytes travel inside SaslAuthenticate
AUTHENTICATE_VERSION = 2
ROUNDS_MAX = 8
LOGIN_MS_MAX = 10_000
# This part of a session's lifetime passes before the next login.
LIFETIME_SHARE = 0.85
NEXT_STEP = (
    "the user and the password of this node are in listener.name.L.MECHANISM.sasl.jaas.config, and "
    "the other node must know them"
)


class LinkLoginWorld(Protocol):
    """The part of a world that logins need."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def entropy(self) -> Entropy: ...
    @property
    def workers(self) -> Workers: ...


class LoginCarrier(Protocol):
    """The connection that logs in."""

    def ask(
        self, message: object, expect: type[Any], version: int, answered: Callable[[Any], None], /
    ) -> None:
        """Send a request before all others; `answered` gets the response, or an exception."""
        ...

    def login_begins(self) -> None:
        """Send no other request for now."""
        ...

    def logged_in(self) -> None: ...

    def end(self, reason: str, /) -> None: ...


class LinkLogin:
    """The logins of one connection."""

    def __init__(self, world: LinkLoginWorld, mechanism: Mechanism, name: str) -> None:
        """Prepare a login to the node of this name."""
        self._world = world
        self._mechanism = mechanism
        self._name = name
        self._carrier: LoginCarrier | None = None
        self._version = AUTHENTICATE_VERSION
        self._exchange: Exchange | None = None
        self._rounds = 0
        self._lifetime_ms = 0
        self._timer: Timer | None = None
        self._is_over = False

    def begin(self, carrier: LoginCarrier, versions: Mapping[int, tuple[int, int]]) -> None:
        """Log in, to a node that serves these versions."""
        self._carrier = carrier
        _, high = versions.get(SASL_AUTHENTICATE, (0, -1))
        if high < 0:
            carrier.end(f"{self._name} offers no SASL: its listener has another protocol")
            return
        self._version = min(high, AUTHENTICATE_VERSION)
        self._log_in()

    def stop(self) -> None:
        """Forget the login: the connection has ended."""
        self._is_over = True
        self._set_timer(None)

    def _set_timer(self, timer: Timer | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _after(self, delay_ms: float, call: Callable[[], None]) -> None:
        at = self._world.clock.mono_ms() + delay_ms
        self._set_timer(self._world.timers.at(at, call))

    def _log_in(self) -> None:
        assert self._carrier is not None, "a login begins on a connection"
        self._carrier.login_begins()
        self._rounds = 0
        self._after(LOGIN_MS_MAX, lambda: self._fail(f"no end within {LOGIN_MS_MAX} ms"))
        request = SaslHandshakeRequest(mechanism=self._mechanism.name)
        self._carrier.ask(request, SaslHandshakeResponse, HANDSHAKE_VERSION, self._agreed)

    def _agreed(self, answer: SaslHandshakeResponse | Exception) -> None:
        if isinstance(answer, Exception):
            return  # the connection is lost
        if answer.error_code == IllegalSaslState.code:
            self._fail("its listener asks for no login")
            return
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "no mechanism"
            self._fail(f"the other node offers {offered}")
            return
        entropy = self._world.entropy
        self._exchange = self._mechanism.begin(encode_base64(entropy.uuid() + entropy.uuid()))
        self._send(self._exchange.first())

    def _send(self, message: bytes) -> None:
        assert self._carrier is not None, "a login begins on a connection"
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            self._fail("the other node asks again and again")
            return
        request = SaslAuthenticateRequest(auth_bytes=message)
        self._carrier.ask(request, SaslAuthenticateResponse, self._version, self._answered)

    def _answered(self, answer: SaslAuthenticateResponse | Exception) -> None:
        if isinstance(answer, Exception):
            return  # the connection is lost
        if answer.error_code:
            self._fail(answer.error_message or f"error {answer.error_code}")
            return
        assert self._exchange is not None, "an exchange has begun"
        self._lifetime_ms = answer.session_lifetime_ms
        if answer.auth_bytes:
            arguments = (answer.auth_bytes,)
            self._world.workers.compute(self._exchange.answer, arguments, self._computed)
            return
        try:
            message = self._exchange.answer(b"")
        except AuthenticationFailed as problem:
            self._fail(str(problem))
        else:
            self._computed(message, None)

    def _computed(self, message: bytes | None, failure: BaseException | None) -> None:
        if self._is_over:
            return
        if failure is not None:
            self._fail(str(failure))
        elif message is not None:
            self._send(message)
        else:
            self._finish()

    def _finish(self) -> None:
        assert self._carrier is not None, "a login begins on a connection"
        self._exchange = None
        self._set_timer(None)
        if self._lifetime_ms > 0:
            self._after(self._lifetime_ms * LIFETIME_SHARE, self._log_in)
        self._carrier.logged_in()

    def _fail(self, reason: str) -> None:
        assert self._carrier is not None, "a login begins on a connection"
        self._carrier.end(
            f"the login to {self._name} by {self._mechanism.name} failed: {reason}; {NEXT_STEP}"
        )
