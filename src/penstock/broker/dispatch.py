"""From a frame to its handler.

Unknown keys and versions have no schema to answer in: the connection is closed. Only ApiVersions
answers every version. A fault of the peer becomes an error in the reply; a fault of ours is
logged with its trace and ends that connection only.
"""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.broker.handlers import HANDLERS
from penstock.broker.metrics.counts import OTHER_VERSION
from penstock.broker.request import Request
from penstock.errors import KafkaError
from penstock.wire.apis import APIS, request_class, response_class
from penstock.wire.codec import read
from penstock.wire.frame import parse_request_header
from penstock.wire.primitives import Malformed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.connection import Connection

log = logging.getLogger("penstock.dispatch")

API_VERSIONS = 18

Handler = Callable[["Broker", Request, Any], Any]
_loaded: dict[int, Handler] = {}


def failed(connection: "Connection", key: int, version: int, error: Exception) -> None:
    """A request could not be handled at all."""
    if isinstance(error, Malformed):
        name = APIS[key].name if key in APIS else f"key {key}"
        connection.refuse(f"a malformed {name} request v{version}: {error}")
    elif isinstance(error, AssertionError):
        raise error  # our own state is wrong: stop rather than go on with it
    else:
        log.error(
            "a request failed (key %d, version %d): closing its connection",
            key,
            version,
            exc_info=error,
        )
        connection.close()


def serves(listener_kind: str, key: int) -> bool:
    """Whether a listener of this kind ("broker" or "controller") answers this API."""
    return key in HANDLERS and listener_kind in APIS[key].listeners


def dispatch(connection: "Connection", frame: memoryview, key: int, version: int) -> None:
    """Every API but Produce, which connections call themselves: it is nearly all the traffic."""
    listener = connection.listener
    if not serves(listener.kind, key):
        connection.refuse(f"API key {key}, which this listener does not serve")
        return
    low, high = APIS[key].versions
    if not low <= version <= high and key != API_VERSIONS:
        connection.refuse(f"{APIS[key].name} v{version}; v{low}-v{high} are served")
        return
    header = parse_request_header(frame)
    connection.client_id = header.client_id or ""
    connection.unanswered += 1
    counts = listener.broker.counts
    counts.came(key, version if low <= version <= high else OTHER_VERSION)
    request = Request(
        connection, connection.take_slot(), key, version, header.correlation_id, header.client_id
    )
    handler = _loaded.get(key) or _load(key)
    message: Any = None
    if not low <= version <= high:
        pass  # ApiVersions tells a client from the future what it may speak
    else:
        message = read(request_class(key), version, frame, header.body_position)
    try:
        response = handler(listener.broker, request, message)
    except KafkaError as error:
        response = _whole_failure(key, error)
        if response is None:
            raise
    if response is not None:
        request.reply(response)


def _load(key: int) -> Handler:
    module = import_module(f"penstock.broker.handlers.{HANDLERS[key]}")
    handler: Handler = module.handle
    _loaded[key] = handler
    return handler


def _whole_failure(key: int, error: KafkaError) -> Any:
    """The answer when the whole request fails, where the response has a place to say so."""
    response = response_class(key)()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
