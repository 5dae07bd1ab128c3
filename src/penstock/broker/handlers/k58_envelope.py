"""Envelope, v0: a request of a client that its broker forwards to the active controller.

The answer holds the frame of the client's answer. NOT_CONTROLLER stands in the envelope itself:
the broker looks for the active controller and asks again.
"""

from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.broker.handlers import HANDLERS
from penstock.broker.handlers import handle as handle_request
from penstock.broker.request import Answer, ClientRequest
from penstock.broker.request_metrics import errors_in
from penstock.broker.request_pieces import answer_in_pieces, piece_rule_for
from penstock.broker.sliced_work import Slices
from penstock.errors import InvalidRequest, NotController, UnsupportedVersion
from penstock.wire.apis import APIS, BOTH, request_class
from penstock.wire.codec import read_in_slices
from penstock.wire.frame import parse_request_header
from penstock.wire.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FETCH, API_VERSIONS = 1, 18
SIZE_BYTES = 4  # before a frame; an envelope has its own length
STRUCTURES_READ = 4  # a controller that is not active says so in every part of its answer


class EnvelopedRequest(ClientRequest):
    """The request within an envelope; its answer goes into the answer of the envelope."""

    __slots__ = ("_envelope",)

    def __init__(
        self, envelope: ClientRequest, key: int, version: int, correlation_id: int, client_id: str
    ) -> None:
        super().__init__(
            envelope.connection,
            envelope.slot,
            key,
            version,
            correlation_id,
            client_id,
            envelope.arrived_ms,
        )
        self._envelope = envelope

    def reply(self, response: Any) -> None:
        """Answer; an answer of a controller that is not active becomes the envelope's error."""
        codes = islice(errors_in(response), STRUCTURES_READ)
        if NotController.code in codes:
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
    header = parse_request_header(message.request_data)
    key, version = header.api_key, header.api_version
    if not _may_be_forwarded(key):
        return EnvelopeResponse(error_code=InvalidRequest.code)
    if header.body_position < 0:
        return EnvelopeResponse(error_code=UnsupportedVersion.code)
    inner = EnvelopedRequest(request, key, version, header.correlation_id, header.client_id or "")
    parsed: Any = yield from read_in_slices(
        request_class(key), version, message.request_data, header.body_position
    )
    cut = piece_rule_for(key, parsed)
    if cut is not None:

        def handle_piece(piece: ClientRequest, part: Any) -> Slices[Any]:
            return handle_request(broker, piece, part)

        response = yield from answer_in_pieces(inner, parsed, cut, handle_piece)
    else:
        response = yield from handle_request(broker, inner, parsed)
    if response is not None:
        inner.reply(response)
    return None


def _may_be_forwarded(key: int) -> bool:
    """Return whether both kinds of listeners serve the API, so that clients may ask a broker."""
    api = APIS.get(key)
    if api is None or key in (FETCH, API_VERSIONS):
        return False
    return key in HANDLERS and api.listeners == BOTH
