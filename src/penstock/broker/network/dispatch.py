"""From a frame to its handler.

Unknown keys and versions have no schema to answer in: the connection is closed. Only ApiVersions
answers every version. A fault of the peer becomes an error in the reply; a fault of ours is
logged with its trace and ends that connection only.

No request holds up the loop. A long frame is read in slices (sliced_work.py), a request over a
long list is cut into pieces (request_pieces.py), and a handler that goes through much of the
node's state is a generator that pauses. Meanwhile its connection handles nothing else.
"""

from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from penstock.broker.handlers import HANDLERS, handle, handler_for, whole_failure
from penstock.broker.message_release import free_in_slices
from penstock.broker.request import ClientConnection, ClientRequest, failed
from penstock.broker.request_metrics import OTHER_VERSION
from penstock.broker.request_pieces import answer_in_pieces, piece_rule_for
from penstock.broker.sliced_work import Pause, Slices, Work
from penstock.broker.throttle import is_between_nodes
from penstock.errors import KafkaError
from penstock.wire.apis import APIS, request_class
from penstock.wire.codec import SLICE_BYTES, read, read_in_slices
from penstock.wire.frame import parse_request_header

if TYPE_CHECKING:
    from penstock.broker.network.connection import BrokerConnection

API_VERSIONS = 18


def serves(listener_kind: str, key: int) -> bool:
    """Return whether a listener of this kind ("broker" or "controller") serves this API."""
    return key in HANDLERS and listener_kind in APIS[key].listeners


def dispatch(connection: "BrokerConnection", frame: memoryview, key: int, version: int) -> None:
    """Handle a request of any API but Produce, which connections hand to its handler directly."""
    listener = connection.listener
    if not serves(listener.kind, key):
        connection.reject(f"API key {key}, which this listener does not serve")
        return
    low, high = APIS[key].versions
    if not low <= version <= high and key != API_VERSIONS:
        connection.reject(f"{APIS[key].name} v{version}; v{low}-v{high} are served")
        return
    header = parse_request_header(frame)
    connection.client_id = header.client_id or ""
    connection.unanswered += 1
    request_metrics = listener.broker.request_metrics
    request_metrics.count_request(key, version if low <= version <= high else OTHER_VERSION)
    slot, arrived_ms = connection.take_slot(), connection.active_at_ms
    request = ClientRequest(
        connection, slot, key, version, header.correlation_id, header.client_id, arrived_ms
    )
    known = low <= version <= high
    throttle = listener.broker.throttle
    began_ms = listener.now_ms() if throttle.limits_requests else 0.0
    if known and len(frame) > SLICE_BYTES:
        # The bytes of a turn are good until it ends.
        reading = _read_and_handle(connection, request, bytes(frame), header.body_position)
        _begin(request, reading)
        return
    message: Any = None  # ApiVersions tells a client from the future what it may speak
    if known:
        message = read(request_class(key), version, frame, header.body_position)
    cut = piece_rule_for(key, message, long=False) if known else None
    if cut is not None:
        _begin(request, answer_in_pieces(request, message, cut, partial(handle, listener.broker)))
        return
    try:
        response = handler_for(listener.kind, key)(listener.broker, request, message)
    except KafkaError as error:
        response = whole_failure(key, error)
    if throttle.limits_requests and not is_between_nodes(key, version, message):
        throttle.requested(connection, listener.now_ms() - began_ms)
    if type(response) is GeneratorType:
        _begin(request, response)
    elif response is not None:
        request.reply(response)


def _begin(request: ClientRequest, slices: Slices[Any]) -> None:
    """Run a long request in slices; its connection handles no other one meanwhile."""
    request.connection.hold()
    work = request.connection.listener.broker.sliced_work
    work.begin(_answer(request, slices), APIS[request.api_key].name)


def _answer(request: ClientRequest, slices: Slices[Any]) -> Work:
    """Run slices until the peer has gone; answer with what they return, or with their error."""
    connection, key = request.connection, request.api_key
    try:
        response: Any = None
        try:
            while not connection.closing:
                yield _next(connection, slices)
        except StopIteration as end:
            response = end.value
        except KafkaError as error:
            response = whole_failure(key, error)
        if response is not None and not connection.closing:
            request.reply(response)
    except Exception as error:
        failed(connection, key, request.api_version, error)
    finally:
        slices.close()
        connection.release()


def _next(connection: ClientConnection, slices: Slices[Any]) -> Pause:
    """Run a slice; its time counts where a client has a quota of time."""
    listener = connection.listener
    throttle = listener.broker.throttle
    if not throttle.limits_requests:
        return next(slices)
    began_ms = listener.now_ms()
    try:
        return next(slices)
    finally:
        throttle.requested(connection, listener.now_ms() - began_ms)


def _read_and_handle(
    connection: "BrokerConnection", request: ClientRequest, frame: bytes, body_position: int
) -> Slices[Any]:
    broker = connection.listener.broker
    yield from broker.long_requests.wait_for_memory(broker.frames, connection, len(frame))
    key, version = request.api_key, request.api_version
    message: Any = yield from read_in_slices(request_class(key), version, frame, body_position)
    cut = piece_rule_for(key, message)
    response: Any
    try:
        if cut is not None:
            response = yield from answer_in_pieces(request, message, cut, partial(handle, broker))
        else:
            response = yield from handle(broker, request, message)
    except GeneratorExit:  # the peer has gone
        request.free_later(message)
        raise
    held = [message]
    del message
    yield from free_in_slices(held)
    return response
