"""A request on its way through the node, for every API but the fast paths."""

import logging
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.broker.metrics.error_codes import errors_in
from penstock.broker.sliced_work import Work
from penstock.wire.apis import APIS
from penstock.wire.codec import Slices
from penstock.wire.frame import response_frame_in_slices
from penstock.wire.primitives import Malformed, Unwritable

if TYPE_CHECKING:
    from penstock.broker.connection import Answer, Connection, Slot

log = logging.getLogger("penstock.dispatch")

ERRORS_PER_SLICE = 500


def failed(connection: "Connection", key: int, version: int, error: Exception) -> None:
    """Close the connection of a request that could not be handled at all. An exception of our own
    costs the request, and never the node: a peer could have found the way to it."""
    if isinstance(error, Malformed):
        name = APIS[key].name if key in APIS else f"key {key}"
        connection.refuse(f"a malformed {name} request v{version}: {error}")
        return
    log.error(
        "a request failed (key %d, version %d): closing its connection",
        key,
        version,
        exc_info=error,
    )
    connection.close()


class Request:
    """Who asked, in which version, and the place its answer goes to."""

    __slots__ = (
        "answered",
        "api_key",
        "api_version",
        "arrived_ms",
        "client_id",
        "connection",
        "correlation_id",
        "slot",
    )

    def __init__(
        self,
        connection: "Connection",
        slot: "Slot",
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
    ) -> None:
        self.connection = connection
        self.slot = slot
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.answered = False
        self.arrived_ms = connection.active_at_ms

    def run(self, call: Callable[[], None]) -> None:
        """Call on behalf of this request, from a timer or the end of a turn: an exception costs
        the request's connection."""
        try:
            call()
        except Exception as error:
            failed(self.connection, self.api_key, self.api_version, error)

    def reply(self, response: Any) -> None:
        """Answer with a message: at once, or in slices if it is long. A peer that has gone in the
        meantime is no error. An answer that has no place in this version ends the connection, and
        nothing else: it may come late, from a timer or on behalf of another peer's request."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        slices = response_frame_in_slices(
            self.api_key, self.api_version, self.correlation_id, response
        )
        try:
            next(slices)
        except StopIteration as end:
            self.connection.listener.broker.counts.told(self.api_key, response)
            self._finish(end.value)
        except Unwritable as problem:
            self._unwritable(problem)
        else:
            self.connection.hold()
            self.connection.listener.broker.sliced_work.begin(self._write(slices, response))

    def _write(self, slices: Slices[bytes], response: Any) -> Work:
        counts = self.connection.listener.broker.counts
        try:
            frame = yield from slices
            codes = errors_in(response)
            while some := list(islice(codes, ERRORS_PER_SLICE)):
                for code in some:
                    counts.failed(self.api_key, code)
                yield None
            self._finish(frame)
        except Unwritable as problem:
            self._unwritable(problem)
        except Exception as error:
            failed(self.connection, self.api_key, self.api_version, error)
        finally:
            self.connection.release()

    def _unwritable(self, problem: Unwritable) -> None:
        log.error("an answer cannot be written (%s): closing its connection", problem)
        self.connection.close()

    def reply_frame(self, answer: "Answer") -> None:
        """Answer with a whole frame, or with parts that make one."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        self._finish(answer)

    def _finish(self, answer: "Answer") -> None:
        connection = self.connection
        listener = connection.listener
        listener.broker.counts.answered(self.api_key, listener.now_ms() - self.arrived_ms)
        connection.answer(self.slot, answer)


class PieceRequest(Request):
    """A piece of a long request: its answer goes to those who join the pieces."""

    __slots__ = ("_done", "response")

    def __init__(self, whole: Request, done: Callable[[], None]) -> None:
        super().__init__(
            whole.connection,
            whole.slot,
            whole.api_key,
            whole.api_version,
            whole.correlation_id,
            whole.client_id,
        )
        self._done = done
        self.response: Any = None

    def reply(self, response: Any) -> None:
        """Keep the answer for the join."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        self.response = response
        self._done()
