"""Envelope, v0: a request of a client that its broker forwards to the active controller.

The answer holds the frame of the client's answer. NOT_CONTROLLER stands in the envelope itself:
the broker looks for the active controller and asks again. The request inside is judged by its own
principal and address, which the broker vouches for.
"""

from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from penstock.broker.handlers import HANDLERS, whole_failure
from penstock.broker.handlers import handle as handle_request
from penstock.broker.request import Answer, ClientRequest
from penstock.broker.request_metrics import says_not_controller
from penstock.broker.request_pieces import answer_in_pieces, piece_rule_for
from penstock.broker.sliced_work import Slices
from penstock.credentials.principal import Caller, Principal, plain_address
from penstock.errors import (
    InvalidRequest,
    KafkaError,
    NotController,
    PrincipalDeserializationFailure,
    UnsupportedVersion,
)
from penstock.wire.apis import APIS, BOTH, request_class
from penstock.wire.codec import read, read_in_slices
from penstock.wire.frame import RequestHeader, parse_request_header
from penstock.wire.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from penstock.wire.primitives import Malformed
from penstock.wire.records.principal import DefaultPrincipalData

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FETCH, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 1, 17, 18, 36
OF_ONE_NODE = (FETCH, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE)
PRINCIPAL_VERSION = b"\0\0"
ADDRESS_LENGTHS = (4, 16)
SIZE_BYTES = 4  # before a frame; an envelope has its own length


class EnvelopedRequest(ClientRequest):
    """The request within an envelope; its answer goes into the answer of the envelope."""

    __slots__ = ("_caller", "_envelope")

    def __init__(self, envelope: ClientRequest, caller: Caller, header: RequestHeader) -> None:
        super().__init__(
            envelope.connection,
            envelope.slot,
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id or "",
            envelope.arrived_ms,
        )
        self._caller = caller
        self._envelope = envelope

    @property
    def caller(self) -> Caller:
        return self._caller

    def reply(self, response: Any) -> None:
        """Answer; an answer of a controller that is not active becomes the envelope's error."""
        if says_not_controller(response):
            self.answered = True
            self._envelope.reply(EnvelopeResponse(error_code=NotController.code))
            return
        super().reply(response)

    def _finish(self, answer: Answer) -> None:
        assert isinstance(answer, bytes), "an admin API has no file ranges in its answer"
        self._envelope.reply(EnvelopeResponse(response_data=answer[SIZE_BYTES:]))


def handle(
    broker: "Broker", request: ClientRequest, message: EnvelopeRequest
) -> Slices[EnvelopeResponse | None]:
    if not broker.metadata.is_active:
        return EnvelopeResponse(error_code=NotController.code)
    caller = _caller_of(message)
    if not isinstance(caller, Caller):
        return EnvelopeResponse(error_code=caller.code)
    try:
        header = parse_request_header(message.request_data)
    except Malformed:
        return EnvelopeResponse(error_code=UnsupportedVersion.code)
    key, version = header.api_key, header.api_version
    if not _may_be_forwarded(key):
        return EnvelopeResponse(error_code=InvalidRequest.code)
    if header.body_position < 0:
        return EnvelopeResponse(error_code=UnsupportedVersion.code)
    inner = EnvelopedRequest(request, caller, header)
    parsed: Any = yield from read_in_slices(
        request_class(key), version, message.request_data, header.body_position
    )
    cut = piece_rule_for(key, parsed)
    try:
        if cut is not None:
            handle_piece = partial(handle_request, broker)
            response = yield from answer_in_pieces(inner, parsed, cut, handle_piece)
        else:
            response = yield from handle_request(broker, inner, parsed)
    except KafkaError as error:
        response = whole_failure(key, error)
    if response is not None:
        inner.reply(response)
    return None


def _caller_of(message: EnvelopeRequest) -> Caller | type[KafkaError]:
    """Return the caller that a broker vouches for, or the error of an unreadable one."""
    data = message.request_principal or b""
    if data[: len(PRINCIPAL_VERSION)] != PRINCIPAL_VERSION:
        return PrincipalDeserializationFailure
    try:
        principal = read(DefaultPrincipalData, 0, data, len(PRINCIPAL_VERSION))
    except Malformed:
        return PrincipalDeserializationFailure
    if len(message.client_host_address) not in ADDRESS_LENGTHS:
        return InvalidRequest
    host = plain_address(str(ip_address(message.client_host_address)))
    name = Principal(principal.name, principal.type)
    return Caller(name, host, principal.token_authenticated)


def _may_be_forwarded(key: int) -> bool:
    """Return whether both kinds of listeners serve the API, so that clients may ask a broker."""
    api = APIS.get(key)
    if api is None or key in OF_ONE_NODE:
        return False
    return key in HANDLERS and api.listeners == BOTH
