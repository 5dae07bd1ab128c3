"""A request on its way through the node, for every API but the fast paths."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from penstock.broker.message_release import free_in_slices
from penstock.broker.request_metrics import RequestMetrics, errors_in
from penstock.broker.sliced_work import SlicedWork, Work
from penstock.broker.throttle import ClientMeters, Throttle
from penstock.controller.image import Image
from penstock.credentials.principal import Caller
from penstock.wire.apis import APIS
from penstock.wire.codec import Slices
from penstock.wire.frame import response_frame_in_slices
from penstock.wire.primitives import Malformed, UnencodableValue
from penstock.world import Part, Peer, World

if TYPE_CHECKING:
    from penstock.broker.logins.listener_logins import ListenerLogins
    from penstock.broker.logins.session import SaslSession

log = logging.getLogger("penstock.dispatch")

ERRORS_PER_SLICE = 500

# An answer: one whole frame, or parts with file ranges among them. None: not there yet.
Answer = bytes | Sequence[Part]
Slot = list[Answer | None]


class RequestHost(Protocol):
    """The broker, as far as every request needs it."""

    image: Image
    request_metrics: RequestMetrics
    sliced_work: SlicedWork
    throttle: Throttle


class ClientListener(Protocol):
    """The listener that a connection came in by."""

    name: str
    kind: str
    now_ms: Callable[[], float]
    logins: "ListenerLogins | None"

    @property
    def broker(self) -> RequestHost: ...


class ClientConnection(Protocol):
    """The connection of a client, as handlers see it (network/connection.py)."""

    active_at_ms: float
    caller: Caller
    client_id: str
    on_closed: list[Callable[[], None]]
    on_drain: list[Callable[[], None]]
    produce_prefix: int
    produce_routes: list[dict[bytes, Any]]
    replies: deque[Slot]
    peer: Peer
    session: "SaslSession | None"
    closing: bool
    long_frame_bytes: int
    meters: ClientMeters | None
    produced_bytes: int
    throttled_until_ms: float
    touched: bool

    @property
    def listener(self) -> ClientListener: ...

    def hold(self) -> None: ...

    def mute(self) -> None: ...

    def release(self) -> None: ...

    def take_slot(self) -> Slot: ...

    def fill(self, slot: Slot, answer: Answer) -> None: ...

    def answer(self, slot: Slot, answer: Answer) -> None: ...

    def touch(self) -> None: ...

    def reject(self, reason: str) -> None: ...

    def close(self) -> None: ...

    def close_answered(self) -> None: ...


def failed(connection: ClientConnection, key: int, version: int, error: Exception) -> None:
    """Close the connection of a request that could not be handled. An unexpected exception costs
    the request, never the node: a peer may be able to cause it."""
    if isinstance(error, Malformed):
        name = APIS[key].name if key in APIS else f"key {key}"
        connection.reject(f"a malformed {name} request v{version}: {error}")
        return
    log.error(
        "a request failed (key %d, version %d): closing its connection",
        key,
        version,
        exc_info=error,
    )
    connection.close()


@dataclass(slots=True, eq=False)
class ClientRequest:
    """A request: its connection, its version, and the slot of its answer."""

    connection: ClientConnection
    slot: Slot
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    arrived_ms: float
    answered: bool = False

    @property
    def caller(self) -> Caller:
        return self.connection.caller

    def run(self, call: Callable[[], None]) -> None:
        """Call on behalf of this request, from a timer or the end of a turn. An exception closes
        the connection."""
        try:
            call()
        except Exception as error:
            failed(self.connection, self.api_key, self.api_version, error)

    def reply(self, response: Any) -> None:
        """Answer with a message: at once, or in slices if the message is long. A closed connection
        is no error. An answer that this version cannot encode closes the connection only: the
        caller may be a timer, or another peer's request."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        if self.connection.throttled_until_ms and hasattr(response, "throttle_time_ms"):
            left_ms = self.connection.listener.broker.throttle.left_ms(self.connection)
            response.throttle_time_ms = max(response.throttle_time_ms, left_ms)
        slices = response_frame_in_slices(
            self.api_key, self.api_version, self.correlation_id, response
        )
        try:
            next(slices)
        except StopIteration as end:
            self.connection.listener.broker.request_metrics.count_errors(self.api_key, response)
            self._finish(end.value)
        except UnencodableValue as problem:
            self._unwritable(problem)
        else:
            self.connection.hold()
            self.connection.listener.broker.sliced_work.begin(self._write(slices, response))

    def _write(self, slices: Slices[bytes], response: Any) -> Work:
        request_metrics = self.connection.listener.broker.request_metrics
        try:
            frame = yield from slices
            codes = errors_in(response)
            while some := list(islice(codes, ERRORS_PER_SLICE)):
                for code in filter(None, some):
                    request_metrics.failed(self.api_key, code)
                yield None
            self._finish(frame)
            held = [response]
            del response
            yield from free_in_slices(held)
        except UnencodableValue as problem:
            self._unwritable(problem)
        except Exception as error:
            failed(self.connection, self.api_key, self.api_version, error)
        finally:
            self.connection.release()

    def free_later(self, message: Any) -> None:
        """Free a message of a peer that has gone, in slices. The caller keeps no reference."""
        if self.connection.closing:  # else the node itself has gone, and runs no more work
            self.connection.listener.broker.sliced_work.enqueue(free_in_slices([message]))

    def _unwritable(self, problem: UnencodableValue) -> None:
        log.error("an answer cannot be written (%s): closing its connection", problem)
        self.connection.close()

    def end_turn(self, world: World) -> None:
        """Handle the next requests in a later turn, under the session as it is then."""
        self.connection.hold()
        world.timers.soon(self.connection.release)

    def reply_late_and_close(self, response: Any, world: World, delay_ms: float) -> None:
        """Answer after a delay and close the connection, which handles nothing meanwhile."""
        connection = self.connection
        connection.hold()

        def end() -> None:
            if not connection.closing:
                self.reply(response)
                connection.close_answered()

        world.timers.at(world.clock.mono_ms() + delay_ms, lambda: self.run(end))

    def reply_frame(self, answer: Answer) -> None:
        """Answer with a whole frame, or with parts that make one."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        self._finish(answer)

    def _finish(self, answer: Answer) -> None:
        connection = self.connection
        listener = connection.listener
        listener.broker.request_metrics.answered(self.api_key, listener.now_ms() - self.arrived_ms)
        connection.answer(self.slot, answer)


class PieceRequest(ClientRequest):
    """A piece of a long request, whose answer is joined with those of the other pieces."""

    __slots__ = ("_caller", "_done", "response")

    def __init__(self, whole: ClientRequest, done: Callable[[], None]) -> None:
        super().__init__(
            whole.connection,
            whole.slot,
            whole.api_key,
            whole.api_version,
            whole.correlation_id,
            whole.client_id,
            whole.arrived_ms,
        )
        self._done = done
        self._caller = whole.caller
        self.response: Any = None

    @property
    def caller(self) -> Caller:
        return self._caller

    def reply(self, response: Any) -> None:
        """Keep the answer for the join."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        self.response = response
        self._done()
