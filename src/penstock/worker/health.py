"""A small HTTP server beside a worker: /health, /ready and /metrics.

GET and HEAD, one request at a time per connection; connections, bytes and times are bounded.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Self, TypeAlias

from penstock.observe.http import (
    METHODS,
    BadRequest,
    HeadReader,
    HttpRequest,
    Response,
    response_bytes,
)

CONNECTIONS_MAX = 32
IDLE_SECONDS_MAX = 120.0
READ_BYTES = 4_096

PageHandler: TypeAlias = Callable[[HttpRequest], Response]


class HealthServer:
    """An HTTP server for the time of an `async with`."""

    def __init__(self, host: str, port: int, pages: Mapping[str, PageHandler]) -> None:
        self._host = host
        self._port = port
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen; raise OSError if the address is not free."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None, "it was entered"
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address that the server listens on."""
        assert self._server is not None, "it was entered"
        host, port, *_ = self._server.sockets[0].getsockname()
        return host, port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._connections.add(task)
        try:
            if len(self._connections) <= CONNECTIONS_MAX:
                await self._converse(reader, writer)
        except (TimeoutError, ConnectionError):
            pass  # the client has gone
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, TimeoutError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads, keep_alive = HeadReader(), True
        while keep_alive:
            head_only = False
            try:
                request = await self._next(reader, heads)
                if request is None:
                    return
                keep_alive, head_only = request.keep_alive, request.method == "HEAD"
                response = self._answer(request)
            except BadRequest as bad:
                keep_alive, response = False, Response(bad.status, f"{bad.text}\n".encode())
            head, body = response_bytes(response, keep_alive=keep_alive)
            writer.write(head if head_only else head + body)
            async with asyncio.timeout(IDLE_SECONDS_MAX):
                await writer.drain()

    async def _next(self, reader: asyncio.StreamReader, heads: HeadReader) -> HttpRequest | None:
        """Return the next request; None at the end of the connection."""
        async with asyncio.timeout(IDLE_SECONDS_MAX):
            while (request := heads.next()) is None:
                data = await reader.read(READ_BYTES)
                if not data:
                    return None
                heads.feed(data)
        return request

    def _answer(self, request: HttpRequest) -> Response:
        page = self._pages.get(request.path)
        if page is None:
            known = ", ".join(self._pages)
            return Response(404, f"There is {known}.\n".encode())
        if request.method not in METHODS:
            return Response(405, b"GET and HEAD are answered here.\n")
        return page(request)
