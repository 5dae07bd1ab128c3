"""A connection that has not logged in yet: three APIs, small frames, and a deadline.

ApiVersions may come first, then a SaslHandshake, then the messages of its mechanism: inside
SaslAuthenticate, or bare after a handshake v0. Requests of other APIs are not parsed. The peer goes
to a BrokerConnection when the login succeeds. A failed login is answered after a delay.
"""

import logging
from collections.abc import Callable
from enum import Enum, auto
from struct import Struct
from typing import TYPE_CHECKING

from penstock.broker.handlers.k18_api_versions import answer_versions
from penstock.broker.logins.listener_logins import ListenerLogins, answered_lifetime_ms
from penstock.broker.logins.session import SASL_AUTHENTICATE, SASL_HANDSHAKE, SaslSession
from penstock.credentials.principal import Caller, Principal, anonymous_at, plain_address
from penstock.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from penstock.security.login.login import LoggedIn, LoginExchange, LoginFailed, failure_text
from penstock.wire.apis import APIS
from penstock.wire.codec import read
from penstock.wire.frame import RequestHeader, parse_request_header, response_frame
from penstock.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest
from penstock.wire.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.primitives import Malformed
from penstock.world import Peer, Timer

if TYPE_CHECKING:
    from penstock.broker.network.listener import BrokerListener

log = logging.getLogger("penstock.listener")

API_VERSIONS = 18
LOGIN_MS_MAX = 10_000  # from the connection to the end of its login
LINGER_MS = 1_000  # for a peer to read why its login failed
WAITING_BYTES_MAX = 64 * 1024 * 1024  # of all such connections of a listener
_SIZE = Struct(">i")
_KEY = Struct(">h")


class _Awaited(Enum):
    """The requests that may come next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    BARE_MESSAGE = auto()
    NOTHING = auto()  # the login is over


_KEYS = {
    _Awaited.VERSIONS_OR_HANDSHAKE: (API_VERSIONS, SASL_HANDSHAKE),
    _Awaited.HANDSHAKE: (SASL_HANDSHAKE,),
    _Awaited.AUTHENTICATE: (SASL_AUTHENTICATE,),
}


class LoginConnection:
    """The node's side of a connection until its login (world.Receiver)."""

    def __init__(
        self, listener: "BrokerListener", logins: ListenerLogins, peer: Peer, now_ms: float
    ) -> None:
        self.peer = peer
        self.closing = False
        self.active_at_ms = now_ms
        self._listener = listener
        self._logins = logins
        self._awaited = _Awaited.VERSIONS_OR_HANDSHAKE
        self._mechanism = ""
        self._exchange: LoginExchange | None = None
        self._buffer = bytearray()
        self._counted_bytes = 0  # of the buffer, among those of all such connections
        self._timer: Timer | None = None
        self.begin_deadline()

    def begin_deadline(self) -> None:
        """Give the peer the whole time from now on."""
        self._after(LOGIN_MS_MAX, lambda: self.reject(f"no login in {LOGIN_MS_MAX // 1000} s"))

    def _after(self, delay_ms: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        at = self._listener.now_ms() + delay_ms
        self._timer = self._listener.broker.world.timers.at(at, call)

    # Receiver

    @property
    def room(self) -> memoryview | None:
        return None

    def filled(self, size: int) -> None:
        raise AssertionError(f"{size} bytes for a connection that has no room")

    def received(self, data: memoryview) -> None:
        self._listener.received_bytes += len(data)
        self.active_at_ms = self._listener.now_ms()
        if self._awaited is _Awaited.NOTHING:
            return
        self._buffer += data
        try:
            self._take_frames()
        except Malformed as problem:
            self.reject(f"a malformed request before its login: {problem}")
        except Exception:
            log.exception("a login failed for a reason of this node: closing its connection")
            self.close()
        if not self.closing:
            self._count_waiting()

    def sent(self) -> None:
        """Ignore this: the answers are small."""

    def closed(self) -> None:
        self._end()
        self._listener.forget_login(self)

    # -- frames

    def _take_frames(self) -> None:
        buffer = self._buffer
        while len(buffer) >= _SIZE.size and self._awaited is not _Awaited.NOTHING:
            (size,) = _SIZE.unpack_from(buffer)
            if not 0 <= size <= self._logins.frame_bytes_max:
                self.reject(
                    f"a frame of {size} bytes before its login (sasl.server.max.receive.size is "
                    f"{self._logins.frame_bytes_max})"
                )
                return
            end = _SIZE.size + size
            if len(buffer) < end:
                return
            frame = bytes(buffer[_SIZE.size : end])
            del buffer[:end]
            self._take(frame)

    def _count_waiting(self) -> None:
        """Count the bytes of an incomplete frame; close the connection if there are too many."""
        logins = self._logins
        logins.waiting_bytes += len(self._buffer) - self._counted_bytes
        self._counted_bytes = len(self._buffer)
        if self._counted_bytes and logins.waiting_bytes > WAITING_BYTES_MAX:
            reason = f"connections without a login have sent more than {WAITING_BYTES_MAX} bytes"
            self._listener.broker.rejections.limit_reached(self.peer.address, reason)
            self.close()

    def _take(self, frame: bytes) -> None:
        if self._awaited is _Awaited.BARE_MESSAGE:
            self._authenticate(frame, self._send_bare, None)
            return
        key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
        if key not in _KEYS[self._awaited]:
            name = APIS[key].name if key in APIS else f"API key {key}"
            self.reject(f"{name} before its login")
            return
        header = parse_request_header(frame)
        if key == API_VERSIONS:
            self._answer_versions(header, frame)
        elif not APIS[key].has(header.api_version):
            self.reject(f"{APIS[key].name} v{header.api_version} before its login")
        elif key == SASL_HANDSHAKE:
            self._shake_hands(header, frame)
        else:
            self._take_message(header, frame)

    def _send(self, data: bytes) -> None:
        self._listener.sent_bytes += len(data)
        self.peer.send((data,))

    def _send_bare(self, answer: bytes, _lifetime_ms: float) -> None:
        self._send(_SIZE.pack(len(answer)) + answer)

    # -- requests

    def _answer_versions(self, header: RequestHeader, frame: bytes) -> None:
        key, version, correlation_id, _, position = header
        message = None if position < 0 else read(ApiVersionsRequest, version, frame, position)
        listener = self._listener
        response, version = answer_versions(listener.broker, listener.kind, version, message)
        if not response.error_code:
            self._awaited = _Awaited.HANDSHAKE
        self._send(response_frame(key, version, correlation_id, response))

    def _shake_hands(self, header: RequestHeader, frame: bytes) -> None:
        key, version, correlation_id, _, position = header
        message = read(SaslHandshakeRequest, version, frame, position)
        self._exchange = self._logins.begin(message.mechanism)
        response = SaslHandshakeResponse(mechanisms=list(self._logins.names))
        if self._exchange is None:
            response.error_code = UnsupportedSaslMechanism.code
            self._fail(
                "a mechanism that is not offered",
                response_frame(key, version, correlation_id, response),
            )
            return
        self._mechanism = message.mechanism
        self._awaited = _Awaited.AUTHENTICATE if version else _Awaited.BARE_MESSAGE
        self._send(response_frame(key, version, correlation_id, response))

    def _take_message(self, header: RequestHeader, frame: bytes) -> None:
        key, version, correlation_id, _, position = header
        message = read(SaslAuthenticateRequest, version, frame, position)
        failure = SaslAuthenticateResponse(
            error_code=SaslAuthenticationFailed.code, error_message=failure_text(self._mechanism)
        )

        def answer(data: bytes, lifetime_ms: float) -> None:
            response = SaslAuthenticateResponse(
                error_message=None,
                auth_bytes=data,
                session_lifetime_ms=answered_lifetime_ms(lifetime_ms),
            )
            self._send(response_frame(key, version, correlation_id, response))

        failed = response_frame(key, version, correlation_id, failure)
        self._authenticate(message.auth_bytes, answer, failed)

    def _authenticate(
        self, message: bytes, answer: Callable[[bytes, float], None], failed: bytes | None
    ) -> None:
        """Take a message of the mechanism, and `answer` it; `failed` is the answer to a wrong
        one."""
        exchange = self._exchange
        assert exchange is not None, "a handshake begins an exchange"
        try:
            data = exchange.answer(message)
        except LoginFailed as failure:
            self._fail(f"{self._mechanism}: {failure}", failed)
            return
        if exchange.done is None:
            answer(data, 0.0)
            return
        lifetime_ms = self._logins.lifetime_ms(self._mechanism, exchange.done)
        answer(data, lifetime_ms)
        self._hand_over(exchange.done, lifetime_ms)

    # -- ends

    def _hand_over(self, done: LoggedIn, lifetime_ms: float) -> None:
        """Give the peer to a connection of its principal, with what it has sent since."""
        rest = bytes(self._buffer)
        self._end()
        self._logins.successful += 1
        host = plain_address(self.peer.address[0])
        session = SaslSession(
            self._mechanism,
            done.name,
            by_token=done.by_token,
            began_ms=self._listener.now_ms(),
            lifetime_ms=lifetime_ms,
        )
        caller = Caller(Principal(done.name), host, done.by_token)
        connection = self._listener.logged_in(self, caller, session)
        self.peer.hand_over(connection)
        if rest:
            self._listener.received_bytes -= len(rest)  # counted again by the connection
            connection.received(memoryview(rest))

    def _fail(self, reason: str, answer: bytes | None) -> None:
        """Answer after a delay, and close."""
        self._logins.failed += 1
        rejections = self._listener.broker.rejections
        rejections.limit_reached(self.peer.address, f"its login failed: {reason}")
        self._listener.broker.access.note_login(
            anonymous_at(self.peer.address[0]), self._mechanism, self._listener.name, reason
        )
        self._stop_reading()
        self.peer.pause()

        def finish() -> None:
            if answer is not None:
                self._send(answer)
            self.peer.finish()
            self._after(LINGER_MS, self.close)

        self._after(self._logins.failure_delay_ms, finish)

    def reject(self, reason: str) -> None:
        """Close the connection of a peer that breaks the protocol."""
        self._logins.failed += 1
        self._listener.broker.rejections.protocol_error(self.peer.address, reason)
        self.close()

    def close(self) -> None:
        self._end()
        self.peer.close()

    def _end(self) -> None:
        self.closing = True
        self._stop_reading()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_reading(self) -> None:
        self._awaited = _Awaited.NOTHING
        self._exchange = None
        self._buffer = bytearray()
        self._logins.waiting_bytes -= self._counted_bytes
        self._counted_bytes = 0
