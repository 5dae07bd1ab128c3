"""A small HTTP server on a node's own loop and network, simulated or real.

A connection has one request in progress. Slow peers are disconnected after a timeout, both while
sending and while reading. Responses may come later; connections and unread bytes are bounded.

Some connections beyond the limit are reserved for urgent paths, so that a health check works while
others hold every ordinary connection. The newest urgent connection displaces the oldest.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from penstock.observe.http import (
    METHODS,
    BadRequest,
    HeadReader,
    HttpRequest,
    Response,
    not_served,
    response_bytes,
)
from penstock.world import Clock, Listening, Network, Peer, Timer, Timers

log = logging.getLogger("penstock.http")

CONNECTIONS_MAX = 32
URGENT_CONNECTIONS_MAX = 16  # beyond those
URGENT_MS_MAX = 2_000  # from the start of such a connection to the end of its only request
HEAD_MS_MAX = 10_000  # from the first byte of a request to its last
IDLE_MS_MAX = 120_000  # between requests: scrapers come about once a minute
ANSWER_MS_MAX = 60_000  # to build a response, and for the peer to read it
LINGER_MS_MAX = 1_000  # after the last response: an immediate close could discard it

Reply: TypeAlias = Callable[[Response], None]
Route: TypeAlias = Callable[[HttpRequest, Reply], None]


class HttpServer:
    """Serves one address. Used on the loop only."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        timers: Timers,
        routes: Mapping[str, Route],
        urgent: Collection[str] = (),
    ) -> None:
        """Make a server that does not listen yet. Paths in `urgent` are served above the connection
        limit too."""
        self.routes = routes
        self.urgent = urgent
        self.requests = 0
        self._network = network
        self._clock = clock
        self._timers = timers
        self._listening: Listening | None = None
        self._connections: dict[HttpConnection, None] = {}
        self._urgent: dict[HttpConnection, None] = {}  # the oldest first

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address. Raise OSError if the address cannot be used."""
        self._listening = self._network.listen(host, port, self._accept)
        return self._listening.address

    def _accept(self, peer: Peer) -> "HttpConnection":
        is_urgent = len(self._connections) >= CONNECTIONS_MAX
        connection = HttpConnection(self, peer, is_urgent=is_urgent)
        if not is_urgent:
            self._connections[connection] = None
            return connection
        self._urgent[connection] = None
        if len(self._urgent) > URGENT_CONNECTIONS_MAX:
            oldest = next(iter(self._urgent))
            self.forget(oldest)
            oldest.close()
        return connection

    def forget(self, connection: "HttpConnection") -> None:
        self._connections.pop(connection, None)
        self._urgent.pop(connection, None)

    def after(self, duration_ms: float, call: Callable[[], None]) -> Timer:
        return self._timers.at(self._clock.mono_ms() + duration_ms, call)

    def soon(self, call: Callable[[], None]) -> None:
        self._timers.soon(call)

    def close(self) -> None:
        """Stop listening and close all connections."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for connection in (*self._connections, *self._urgent):
            connection.close()


class HttpConnection:
    """The server's side of one connection (world.Receiver)."""

    def __init__(self, server: HttpServer, peer: Peer, *, is_urgent: bool) -> None:
        self.room: memoryview | None = None
        self._server = server
        self._peer = peer
        self._reader = HeadReader()
        self._answering = False
        self._ending = False  # read nothing more; close after the response
        self._is_urgent = is_urgent
        self._timer: Timer | None = None
        self._patience(URGENT_MS_MAX if is_urgent else IDLE_MS_MAX)

    # -- in

    def received(self, data: memoryview) -> None:
        if self._ending:
            return
        if not (self._reader.waiting_bytes or self._answering or self._is_urgent):
            self._patience(HEAD_MS_MAX, asks=True)
        try:
            self._reader.feed(data)
        except BadRequest as problem:
            if not self._answering:
                self.reject(problem.status, problem.text)
            else:
                self._ending = True  # answer the earlier request, then end
                self._peer.pause()
            return
        self._go_on()

    def filled(self, _size: int) -> None:
        raise AssertionError("there is no room to fill")

    def _go_on(self) -> None:
        if self._answering or self._ending:
            return
        try:
            request = self._reader.next()
        except BadRequest as problem:
            self.reject(problem.status, problem.text)
            return
        if request is None:
            return
        if self._is_urgent and request.path not in self._server.urgent:
            self.reject(503, "Too many connections are open here.")
        else:
            self._handle(request)

    def _handle(self, request: HttpRequest) -> None:
        self._server.requests += 1
        self._answering = True
        self._patience(ANSWER_MS_MAX)
        answered = False

        def reply(response: Response) -> None:
            nonlocal answered
            assert not answered, "a request is answered once"
            answered = True
            self._answer(request, response)

        route = self._server.routes.get(request.path)
        if request.method not in METHODS:
            reply(Response(405, f"{not_served(request.method)}\n".encode()))
        elif route is None:
            paths = " ".join(self._server.routes)
            reply(Response(404, f"Nothing is served at this path. There are: {paths}\n".encode()))
        else:
            try:
                route(request, reply)
            except AssertionError:
                raise  # our own state is wrong: stop
            except Exception as error:
                log.error("%s failed", request.path, exc_info=error)
                if not answered:
                    reply(Response(500, b"This failed; the log of the node says why.\n"))

    # -- out

    def _answer(self, request: HttpRequest, response: Response) -> None:
        keep_alive = request.keep_alive and not (self._ending or self._is_urgent)
        head, body = response_bytes(response, keep_alive=keep_alive)
        self._ending = not keep_alive
        self._peer.send((head,) if request.method == "HEAD" or not body else (head, body))
        if not self._peer.unsent_bytes:
            self._server.soon(self._left)

    def reject(self, status: int, text: str) -> None:
        """Respond with a sentence, and end."""
        if self._ending:
            return
        self._ending = self._answering = True
        self._patience(LINGER_MS_MAX)
        response = Response(status, f"{text}\n".encode())
        self._peer.send(response_bytes(response, keep_alive=False))
        if not self._peer.unsent_bytes:
            self._server.soon(self._left)

    def sent(self) -> None:
        if self._answering:
            self._left()

    def _left(self) -> None:
        """End after a sent response, or wait for the next request."""
        if not self._answering or self._peer.unsent_bytes:
            return
        self._answering = False
        if self._ending:
            self._peer.finish()
            self._patience(LINGER_MS_MAX)
            return
        self._patience(HEAD_MS_MAX if self._reader.waiting_bytes else IDLE_MS_MAX)
        self._go_on()

    # -- ending

    def _patience(self, duration_ms: float, *, asks: bool = False) -> None:
        """Close after this time."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._server.after(duration_ms, self._late if asks else self.close)

    def _late(self) -> None:
        if not self._answering:
            self.reject(408, f"A request is sent within {HEAD_MS_MAX // 1000} seconds.")

    def close(self) -> None:
        self._ending = True
        self._peer.close()

    def closed(self) -> None:
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._server.forget(self)
