"""One blocking connection: sends requests, receives their responses in order.

`request` sends one and waits. `begin` and `finish` keep several in flight: responses come in the
order of the requests, and an early one is kept with its request. Large bodies are sent without a
copy. Responses are received into one buffer, which their records then point into. sockets.py moves
the bytes.
"""

import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.client.failures.kinds import sentences
from penstock.client.transport.sasl import new_nonce
from penstock.client.transport.security import Security
from penstock.client.transport.sockets import NotSecure, TransportSocket, reason, refuses_us
from penstock.credentials.mechanism import AuthenticationFailed
from penstock.errors import UnsupportedVersion, from_code
from penstock.release import VERSION
from penstock.wire.apis import APIS
from penstock.wire.codec import read
from penstock.wire.frame import (
    API_VERSIONS,
    parse_response_header,
    request_frame,
    request_header_version,
)
from penstock.wire.messages.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from penstock.wire.primitives import Buffer, Malformed
from penstock.wire.schema import schema_of

R = TypeVar("R")

RESPONSE_BYTES_MAX = 256 * 1024 * 1024
CLIENT_SOFTWARE_NAME = "penstock"
SASL_HANDSHAKE, BROKER_REGISTRATION = 17, 62
# From this version on SASL bytes are inside SaslAuthenticate; before, they were bare bytes.
HANDSHAKE_VERSION = 1
SASL_ROUNDS_MAX = 8
# A server closes a connection after its authentication has expired. This much earlier the
# connection is replaced, and the new one authenticates again.
LIFETIME_SHARE = 0.85

_SIZE = struct.Struct(">i")
_ERROR = struct.Struct(">h")
_HEADER = struct.Struct(">ihhih")


class CannotReach(Exception):
    """The server could not be reached, did not answer in time, or closed the connection."""


class NotAuthenticated(CannotReach):
    """One side rejects the other: certificate, password, token. A retry is useless; the text ends
    with the next step."""

    next_step = (
        "Check security.protocol, and what was given for sasl.* and ssl.*; the broker's log says "
        "what it did not like"
    )

    def __init__(self, what: str, next_step: str | None = None) -> None:
        super().__init__(what)
        if next_step is not None:
            self.next_step = next_step

    def __str__(self) -> str:
        return sentences(str(self.args[0]), self.next_step)


@dataclass(slots=True, eq=False)
class PendingResponse:
    """A request in flight. An early response is kept here."""

    connection: "Connection"
    key: int
    version: int
    correlation_id: int
    frame: memoryview | None = None

    @property
    def answered(self) -> bool:
        """Return whether the response is here already: no poll of the socket will tell."""
        return self.frame is not None


class Connection:
    """An open, authenticated connection that knows the server's versions. Close it, or use it in a
    `with`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "penstock",
        timeout_ms: int = 30_000,
        security: Security | None = None,
    ) -> None:
        """Raise ValueError if `security` names unusable stores."""
        self.host = host
        self.port = port
        self.versions: dict[int, tuple[int, int]] = {}
        self.finalized_features: dict[str, int] = {}
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._correlation_id = 0
        self._waiting: deque[PendingResponse] = deque()
        self._failure = "it is closed"
        self._expires_at: float | None = None
        # Whether the server has answered a request that needs authentication.
        self._trusted = False
        self._link = self._connect(security or Security())
        try:
            self.versions = self._learn_versions()
            if security is not None and security.mechanism is not None:
                self._authenticate(security)
        except BaseException:
            self.close()
            raise

    def _connect(self, security: Security) -> TransportSocket:
        context = security.context()
        try:
            return TransportSocket(self.host, self.port, self._timeout_ms, context)
        except NotSecure as problem:
            raise NotAuthenticated(
                f"{self} cannot be trusted: {problem.what}", problem.next_step
            ) from problem
        except (OSError, OverflowError) as problem:
            raise CannotReach(f"{self} cannot be reached: {reason(problem)}") from problem

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._link.close()

    @property
    def closed(self) -> bool:
        """Return whether the connection was closed or has failed."""
        return self._link.closed

    @property
    def expired(self) -> bool:
        """Return whether the authentication is about to expire. Requests in flight may finish then;
        new requests need another connection."""
        return self._expires_at is not None and time.monotonic() >= self._expires_at

    @property
    def under_way(self) -> int:
        """Return the number of requests in flight."""
        return len(self._waiting)

    @property
    def link(self) -> TransportSocket:
        """Return the socket, for a wait on several connections."""
        return self._link

    def version_for(self, message: object) -> int:
        """Return the highest version of both sides. Raise UnsupportedVersion if there is none."""
        schema = schema_of(type(message))
        assert schema.key is not None, f"{type(message).__name__} is no request"
        name = APIS[schema.key].name
        if schema.key not in self.versions:
            raise self._unserved(name)
        low, high = self.versions[schema.key]
        version = min(high, schema.versions.last)
        if version < max(low, schema.versions.first):
            raise UnsupportedVersion(
                f"the server at {self} serves {name} {low} to {high}, "
                f"this client speaks {schema.versions.first} to {schema.versions.last}"
            )
        return version

    def _unserved(self, name: str) -> UnsupportedVersion:
        if BROKER_REGISTRATION not in self.versions:  # controllers serve it to brokers
            return UnsupportedVersion(f"the server at {self} does not serve {name}")
        error = UnsupportedVersion(
            f"{self} is the port of a controller, which does not serve {name}"
        )
        error.own_step = "Use the port of a broker's listener for clients"
        return error

    # -- one at a time

    def request(self, message: object, expect: type[R], version: int | None = None) -> R:
        """Send a request and wait; without `version`, in the highest common one.

        The caller checks errors inside the response. After CannotReach the connection is useless.
        """
        pending = self.begin(message, version)
        frame, position = self.finish_raw(pending)
        # Small responses are read faster from bytes, and may be kept without their frame.
        return self._read(pending, expect, bytes(frame), position)

    # -- several under way

    def begin(self, message: object, version: int | None = None) -> PendingResponse:
        """Send without waiting for the response."""
        if version is None:
            version = self.version_for(message)
        key = schema_of(type(message)).key
        assert key is not None, f"{type(message).__name__} is no request"
        correlation_id = self._next_correlation_id()
        frame = request_frame(key, version, correlation_id, self._client_id, message)
        self._send(key, [frame])
        return self._expect(key, version, correlation_id)

    def begin_parts(self, key: int, version: int, body: Sequence[Buffer]) -> PendingResponse:
        """Send a ready body, in parts that are not joined."""
        correlation_id = self._next_correlation_id()
        self._send(key, self._framed(key, version, correlation_id, body))
        return self._expect(key, version, correlation_id)

    def tell_parts(self, key: int, version: int, body: Sequence[Buffer]) -> None:
        """Send a ready body in parts, and expect no response. Produce with acks=0 is the only such
        request."""
        self._send(key, self._framed(key, version, self._next_correlation_id(), body))

    def finish(self, pending: PendingResponse, expect: type[R]) -> R:
        """Wait for the response. Its records point into the received buffer."""
        frame, position = self.finish_raw(pending)
        return self._read(pending, expect, frame, position)

    def finish_raw(self, pending: PendingResponse) -> tuple[memoryview, int]:
        """Wait for the response's frame. Return it with the start of its body."""
        assert pending.connection is self, "an answer comes on the connection of its request"
        while pending.frame is None:
            if pending not in self._waiting:
                raise CannotReach(f"{self} did not answer {_name(pending.key)}: {self._failure}")
            self._receive_next()
        frame, pending.frame = pending.frame, None
        try:
            _, position = parse_response_header(pending.key, pending.version, frame)
        except Malformed as problem:
            raise self._failed(
                f"{self} sent no answer to {_name(pending.key)}: {problem}"
            ) from problem
        return frame, position

    def _read(self, pending: PendingResponse, expect: type[R], frame: Buffer, position: int) -> R:
        try:
            return read(expect, pending.version, frame, position)
        except Malformed as problem:
            raise CannotReach(
                f"{self} sent an answer that is not {expect.__name__} v{pending.version}: {problem}"
            ) from problem

    # -- frames

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def _framed(
        self, key: int, version: int, correlation_id: int, body: Sequence[Buffer]
    ) -> list[Buffer]:
        client_id = self._client_id.encode()
        tags = b"\0" if request_header_version(key, version) == 2 else b""
        size = _HEADER.size - _SIZE.size + len(client_id) + len(tags) + sum(map(len, body))
        header = _HEADER.pack(size, key, version, correlation_id, len(client_id))
        return [header + client_id + tags, *body]

    def _expect(self, key: int, version: int, correlation_id: int) -> PendingResponse:
        pending = PendingResponse(self, key, version, correlation_id)
        self._waiting.append(pending)
        return pending

    def _send(self, key: int, parts: Sequence[Buffer]) -> None:
        try:
            self._link.send(parts)
        except OSError as problem:
            raise self._lost(f"did not take {_name(key)}", problem) from problem

    def _receive_next(self) -> None:
        """Receive the next response, for the oldest request in flight."""
        awaited = self._waiting[0]
        try:
            (size,) = _SIZE.unpack(self._link.receive(_SIZE.size))
            if not 4 <= size <= RESPONSE_BYTES_MAX:
                raise OSError(_not_kafka(size))
            frame = self._link.receive(size)
        except OSError as problem:
            raise self._lost(f"did not answer {_name(awaited.key)}", problem) from problem
        if _SIZE.unpack_from(frame)[0] != awaited.correlation_id:
            raise self._failed(f"{self} does not speak Kafka's protocol")
        self._waiting.popleft()
        awaited.frame = frame
        self._trusted = self._trusted or awaited.key != API_VERSIONS

    def _lost(self, what: str, problem: OSError) -> CannotReach:
        text = f"{self} {what}: {reason(problem)}"
        if refuses_us(problem):
            return NotAuthenticated(
                str(self._failed(text)),
                "Give ssl.keystore.location a certificate that the broker's trust store knows",
            )
        if self._link.secured and not self.versions:
            text += "; does it ask for a client certificate (ssl.keystore.location)?"
        elif self.versions and not self._trusted and not isinstance(problem, TimeoutError):
            text += "; does it ask for SASL first (security.protocol, sasl.mechanism)?"
        return self._failed(text)

    def _failed(self, text: str) -> CannotReach:
        """Close the connection; all requests in flight have failed."""
        self._failure = text
        self._waiting.clear()
        self.close()
        return CannotReach(text)

    # -- beginnings

    def _learn_versions(self) -> dict[int, tuple[int, int]]:
        """Ask in the newest version; a server that does not know it answers in the oldest."""
        version = APIS[API_VERSIONS].versions[1]
        message = ApiVersionsRequest(
            client_software_name=CLIENT_SOFTWARE_NAME, client_software_version=VERSION
        )
        try:
            frame, position = self.finish_raw(self.begin(message, version))
            (error,) = _ERROR.unpack_from(frame, position)
            if error == UnsupportedVersion.code:
                version = 0
                frame, position = self.finish_raw(self.begin(ApiVersionsRequest(), version))
            answer = read(ApiVersionsResponse, version, frame, position)
        except (Malformed, struct.error) as problem:
            raise CannotReach(f"{self} does not speak Kafka's protocol: {problem}") from problem
        if answer.error_code:
            raise from_code(answer.error_code)
        self.finalized_features = {
            each.name: each.max_version_level for each in answer.finalized_features
        }
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _authenticate(self, security: Security) -> None:
        mechanism = security.mechanism
        assert mechanism is not None, "asked for with one only"
        if SASL_HANDSHAKE not in self.versions:
            raise NotAuthenticated(
                f"{self} does not offer SASL",
                "Set security.protocol to PLAINTEXT (or SSL), or use the port of a listener with "
                "SASL",
            )
        handshake = self.request(
            SaslHandshakeRequest(mechanism=mechanism.name), SaslHandshakeResponse, HANDSHAKE_VERSION
        )
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise NotAuthenticated(
                f"{self} does not take sasl.mechanism={mechanism.name}; it offers {offered}",
                "Set sasl.mechanism to one that it offers, and sasl.jaas.config with it",
            )
        try:
            exchange = mechanism.begin(new_nonce())
            said: bytes | None = exchange.first()
            lifetime_ms = 0
            for _ in range(SASL_ROUNDS_MAX):
                if said is None:
                    break
                answer = self._say(said, mechanism.name)
                lifetime_ms = answer.session_lifetime_ms
                said = exchange.answer(answer.auth_bytes)
            else:
                raise AuthenticationFailed("the server does not come to an end")
        except AuthenticationFailed as problem:
            raise NotAuthenticated(f"{self}: {mechanism.name} failed: {problem}") from problem
        if lifetime_ms > 0:
            self._expires_at = time.monotonic() + lifetime_ms / 1000 * LIFETIME_SHARE

    def _say(self, said: bytes, mechanism: str) -> SaslAuthenticateResponse:
        answer = self.request(SaslAuthenticateRequest(auth_bytes=said), SaslAuthenticateResponse)
        if answer.error_code:
            why = from_code(answer.error_code, answer.error_message)
            raise NotAuthenticated(
                f"{self} refused to authenticate by {mechanism}: {why.message}",
                "Check the user and password (or the token) in sasl.jaas.config; the broker's log "
                "says what it did not like",
            )
        return answer


def _name(key: int) -> str:
    return APIS[key].name


def _not_kafka(size: int) -> str:
    # 0x15 starts a TLS alert: the server did not understand a plain request.
    if size >> 24 == 0x15:
        return "it speaks TLS; set security.protocol to SSL or SASL_SSL"
    return "it does not speak Kafka's protocol"
