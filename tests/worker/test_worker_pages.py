"""Answers of the HTTP server beside a worker, and its limit of connections."""

import asyncio
from types import SimpleNamespace
from typing import Any

from penstock.observe.http import HttpRequest, Response
from penstock.worker.health import CONNECTIONS_MAX, HealthServer
from penstock.worker.process import pages

ASKED = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
TEST_SECONDS_MAX = 20.0


def worker(partitions: int) -> Any:
    retrying = SimpleNamespace(partitions=list(range(partitions)))
    return SimpleNamespace(figures=SimpleNamespace(retrying=retrying))


def asked(path: str) -> HttpRequest:
    return HttpRequest("GET", path, {}, {}, keep_alive=True)


def test_a_worker_that_stops_is_alive_and_not_ready() -> None:
    async def story() -> None:
        stop = asyncio.Event()
        served = pages(worker(2), stop)
        assert served["/ready"](asked("/ready")).status == 200
        stop.set()
        answer = served["/ready"](asked("/ready"))
        assert (answer.status, answer.body) == (503, b"stopping\n")
        assert served["/health"](asked("/health")).status == 200

    asyncio.run(story())


def test_a_worker_without_partitions_is_not_ready() -> None:
    async def story() -> None:
        served = pages(worker(0), asyncio.Event())
        assert served["/ready"](asked("/ready")).status == 503

    asyncio.run(story())


def test_more_connections_than_there_may_be_are_closed_unanswered() -> None:
    async def ask(address: tuple[str, int]) -> tuple[asyncio.StreamWriter, bytes]:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(ASKED)
        try:
            return writer, await reader.read(1)
        except ConnectionError:
            return writer, b""

    async def story() -> None:
        page = {"/health": lambda _: Response(200, b"ok\n")}
        async with asyncio.timeout(TEST_SECONDS_MAX), HealthServer("127.0.0.1", 0, page) as server:
            held = [await ask(server.address) for _ in range(CONNECTIONS_MAX)]
            assert {told for _, told in held} == {b"H"}
            one_more, told = await ask(server.address)
            assert told == b"", "it was one too many"
            first, _ = held[0]
            first.close()
            await first.wait_closed()
            # The server hears of that a moment later.
            while not told:
                one_more.close()
                one_more, told = await ask(server.address)
            for each in [one_more, *(writer for writer, _ in held)]:
                each.close()

    asyncio.run(story())
