"""A request on its way through the node, for every API but the fast paths."""

import logging
from typing import TYPE_CHECKING, Any

from penstock.wire.frame import response_frame
from penstock.wire.primitives import Unwritable

if TYPE_CHECKING:
    from penstock.broker.connection import Answer, Connection, Slot

log = logging.getLogger("penstock.dispatch")


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

    def reply(self, response: Any, version: int | None = None) -> None:
        """Answer with a message; a peer that has gone in the meantime is no error. An answer that
        has no place in this version ends the connection, and nothing else: it may come late, from
        a timer or on behalf of somebody else's request."""
        body_version = self.api_version if version is None else version
        try:
            answer = response_frame(self.api_key, body_version, self.correlation_id, response)
        except Unwritable as problem:
            assert not self.answered, "a request is answered once"
            self.answered = True
            log.error("an answer cannot be written (%s): closing its connection", problem)
            self.connection.close()
            return
        self.connection.listener.broker.counts.told(self.api_key, response)
        self.reply_frame(answer)

    def reply_frame(self, answer: "Answer") -> None:
        """Answer with a whole frame, or with parts that make one."""
        assert not self.answered, "a request is answered once"
        self.answered = True
        connection = self.connection
        listener = connection.listener
        listener.broker.counts.answered(self.api_key, listener.now_ms() - self.arrived_ms)
        connection.answer(self.slot, answer)
