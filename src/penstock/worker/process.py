"""A worker as a process: signals, the HTTP server, the end.

After the first SIGTERM, SIGINT or SIGHUP, begun records are handled and committed, and the worker
leaves the group. A second SIGTERM or SIGINT ends the process at once; other members read the begun
records again. A closed terminal sends SIGHUP, often twice. A SIGHUP that was ignored at the start
(nohup) stays ignored.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NoReturn

from penstock.observe.http import HttpRequest, Response
from penstock.observe.text import OPENMETRICS_TYPE, TEXT_TYPE, page, wants_openmetrics
from penstock.retry.task_group import HANDLER_TASK
from penstock.worker.app import THREAD_NAME, Worker, run_until
from penstock.worker.health import HealthServer
from penstock.worker.metrics import ROWS

log = logging.getLogger("penstock.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
INTERRUPTED = 130
ABANDONED = 1


def end_at_once(why: str, code: int) -> NoReturn:
    """End the process without waiting for clients and threads."""
    log.warning("%s", why)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def end_with_threads_left() -> None:
    """End the process if functions on threads still run; their results are not needed."""
    stuck = [each for each in threading.enumerate() if each.name.startswith(THREAD_NAME)]
    if stuck:
        end_at_once(f"{len(stuck)} functions did not end in time and are left behind", ABANDONED)


def end_with_tasks_left() -> None:
    """End the process if coroutines ignore their cancellation."""
    stuck = [each for each in asyncio.all_tasks() if each.get_name() == HANDLER_TASK]
    if stuck:
        end_at_once(f"{len(stuck)} functions did not end in time and are left behind", ABANDONED)


async def serve(
    worker: Worker,
    *,
    address: tuple[str, int] | None = None,
    on_listening: Callable[[tuple[str, int]], None] | None = None,
) -> None:
    """Run until a signal; a second one ends the process. Raise OSError if the port is taken."""
    stop = asyncio.Event()

    def signalled(number: int) -> None:
        if stop.is_set() and number == signal.SIGHUP:
            return
        if stop.is_set():
            end_at_once("a second signal: ended at once", INTERRUPTED)
        name = signal.Signals(number).name
        limit_s = worker.stop_timeout_s
        log.info("%s: what was begun ends within %g s; a second signal ends at once", name, limit_s)
        stop.set()

    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        for each in SIGNALS:
            if each is signal.SIGHUP and signal.getsignal(each) is signal.SIG_IGN:
                continue
            loop.add_signal_handler(each, signalled, each)
            stack.callback(loop.remove_signal_handler, each)
        if address is not None:
            server = await stack.enter_async_context(HealthServer(*address, pages(worker, stop)))
            if on_listening is not None:
                on_listening(server.address)
        await run_until(worker, stop)
    end_with_tasks_left()


def pages(worker: Worker, stop: asyncio.Event) -> dict[str, Callable[[HttpRequest], Response]]:
    """Return the pages of the HTTP server."""

    def health(_request: HttpRequest) -> Response:
        """Answer the liveness probe: 200 while the worker runs, also between two sessions."""
        if worker.figures is None:
            return Response(503, b"not running\n")
        return Response(200, b"ok\n")

    def ready(_request: HttpRequest) -> Response:
        """Answer the readiness probe: 200 while the worker handles partitions."""
        figures = worker.figures
        if figures is None or stop.is_set():
            return Response(503, b"stopping\n" if stop.is_set() else b"not running\n")
        count = len(figures.retrying.partitions)
        if not count:
            return Response(503, b"no partitions yet\n")
        return Response(200, f"ok, {count} partitions\n".encode())

    def metrics(request: HttpRequest) -> Response:
        figures = worker.figures
        if figures is None:
            return Response(503, b"not running\n")
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        text = page(ROWS, figures, openmetrics=openmetrics)
        return Response(200, text.encode(), OPENMETRICS_TYPE if openmetrics else TEXT_TYPE)

    return {"/health": health, "/ready": ready, "/metrics": metrics}
