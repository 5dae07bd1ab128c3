"""One request of a node to the active controller: attempts until an answer or a deadline.

A request of a client travels in an Envelope, with the client's id, principal and address; a
request of a node itself travels alone. After a failure a request is sent again, like Kafka's: the
former controller may have handled it already.
"""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Protocol

from penstock.broker.links.controller_channel import ControllerChannel
from penstock.broker.links.link_connection import LinkRequest
from penstock.broker.links.links import LinkPurpose
from penstock.broker.request_metrics import says_not_controller
from penstock.credentials.principal import Caller
from penstock.errors import (
    KafkaError,
    NotController,
    RequestTimedOut,
    UnknownServerError,
    from_code,
)
from penstock.wire.apis import response_class
from penstock.wire.codec import read, write
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from penstock.wire.primitives import Malformed
from penstock.wire.records.principal import DefaultPrincipalData
from penstock.wire.schema import schema_of
from penstock.world import Timer, World

RETRY_MS = 50
SIZE_BYTES = 4  # before a frame; an envelope has its own length
PRINCIPAL_VERSION = b"\0\0"
NO_ADDRESS = bytes(4)

Settle = Callable[[Any], None]


def _address_bytes(host: str) -> bytes:
    """Return the bytes of an address; zeros for the name of a simulated host."""
    try:
        return ip_address(host).packed
    except ValueError:
        return NO_ADDRESS


class ControllerAccess(Protocol):
    """Where a submission finds the active controller."""

    world: World
    channel: ControllerChannel

    @property
    def is_leader(self) -> bool:
        """Return whether this node leads the quorum."""
        ...

    @property
    def leader(self) -> tuple[int, int]:
        """Return the leader of the quorum, or -1, and its epoch."""
        ...

    def submit_here(self, message: Any, version: int, done: Settle, /) -> None: ...


class Submission:
    """A request without an answer so far; `done` gets the response or a KafkaError, once."""

    def __init__(
        self,
        access: ControllerAccess,
        message: Any,
        version: int,
        caller: Caller | None,
        client_id: str,
        timeout_ms: int,
        done: Settle,
    ) -> None:
        self._access = access
        self._message = message
        self._version = version
        self._caller = caller
        self._client_id = client_id
        self._done = done
        key = schema_of(type(message)).key
        assert key is not None, f"{type(message).__name__} is no request"
        self._key = key
        self._deadline_ms = access.world.clock.mono_ms() + timeout_ms
        self._request: LinkRequest[Any] | None = None  # at the leader of another node
        self._asked = (-1, -1)  # that leader, and its epoch
        self._retry: Timer | None = None
        self._attempts = 0
        self.is_over = False
        self.was_forwarded = False

    def attempt(self) -> None:
        """Send the request to the leader of the quorum, as this node knows it now."""
        access = self._access
        self._attempts += 1
        attempt = self._attempts

        def answered(result: Any) -> None:
            if attempt == self._attempts and not self.is_over:
                self._settle(result)

        self._asked = access.leader
        self.was_forwarded = not access.is_leader
        if access.is_leader:
            access.submit_here(self._message, self._version, answered)
            return
        left_ms = max(1.0, self._deadline_ms - access.world.clock.mono_ms())
        if self._caller is None:
            self._request = access.channel.send(
                self._message, response_class(self._key), LinkPurpose.SHORT, left_ms, answered
            )
        else:
            self._request = access.channel.send(
                self._envelope(self._caller), EnvelopeResponse, LinkPurpose.SHORT, left_ms, answered
            )

    def _envelope(self, caller: Caller) -> EnvelopeRequest:
        frame = request_frame(self._key, self._version, 0, self._client_id, self._message)
        principal = DefaultPrincipalData(
            type=caller.principal.type,
            name=caller.principal.name,
            token_authenticated=caller.by_token,
        )
        return EnvelopeRequest(
            request_data=frame[SIZE_BYTES:],
            request_principal=PRINCIPAL_VERSION + write(principal, 0),
            client_host_address=_address_bytes(caller.host),
        )

    def leader_changed(self) -> None:
        """Ask the new leader instead of waiting for the former one."""
        if self._request is not None:
            if self._asked == self._access.leader:
                return  # a second request could find the change of the first one
            self._request.cancel()
            self._request = None
            self.attempt()
        elif self._retry is not None:
            self._attempt_again()

    def cancel(self) -> None:
        """Give up without an answer: the node stops."""
        self.is_over = True
        if self._request is not None:
            self._request.cancel()
        if self._retry is not None:
            self._retry.cancel()

    # -- answers

    def _settle(self, result: Any) -> None:
        self._request = None
        if isinstance(result, EnvelopeResponse):
            result = self._unwrap(result)
        if not isinstance(result, Exception) and says_not_controller(result):
            result = NotController()
        failed = isinstance(result, Exception) and not isinstance(result, KafkaError)
        if failed or isinstance(result, NotController):
            self._attempt_later(result)
        else:
            self._finish(result)

    def _unwrap(self, response: EnvelopeResponse) -> Any:
        """Return the response in an envelope, or a KafkaError."""
        if response.error_code:
            return from_code(response.error_code)
        data = response.response_data or b""
        try:
            _, position = parse_response_header(self._key, self._version, data)
            return read(response_class(self._key), self._version, data, position)
        except Malformed as problem:
            return UnknownServerError(f"The controller's answer cannot be read: {problem}")

    def _attempt_later(self, failure: Exception) -> None:
        now_ms = self._access.world.clock.mono_ms()
        if now_ms + RETRY_MS >= self._deadline_ms:
            reason = failure.message if isinstance(failure, KafkaError) else str(failure)
            self._finish(RequestTimedOut(f"The active controller gave no answer: {reason}"))
            return
        self._retry = self._access.world.timers.at(now_ms + RETRY_MS, self._attempt_again)

    def _attempt_again(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.attempt()

    def _finish(self, result: Any) -> None:
        self.is_over = True
        self._done(result)
