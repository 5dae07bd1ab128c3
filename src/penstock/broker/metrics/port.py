"""The port for machines and operators: /metrics, /health/live, /health/ready, /status.

The port runs on the node's own loop, so a page is made in slices between requests of clients.
Concurrent requests for one page share the page: many scrapers cost no more than one.
"""

import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.metrics.snapshot import LoopIdle, MetricsSnapshot
from penstock.broker.metrics.status import Json, readiness, status
from penstock.observe.http import HttpRequest, Response
from penstock.observe.server import HttpServer, Reply
from penstock.observe.text import OPENMETRICS_TYPE, TEXT_TYPE, pieces, wants_openmetrics
from penstock.world import World

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.metrics")

SLICE_MS_MAX = 3.0
PAGES_AT_ONCE_MAX = 4  # different ones; further requests get 503
JSON_TYPE = "application/json"
_INDEX = b"""Penstock
/metrics       for Prometheus; ?partitions=TOPIC,... or ?partitions=* tells partitions one by one
/health/live   200 while the node's loop turns
/health/ready  200 while the node can serve clients
/status        directories and long duties, as JSON
"""


class _Wanted(NamedTuple):
    """Which page."""

    by_partition: tuple[str, ...]
    openmetrics: bool


class NodeMetricsPort:
    """Serves the pages. `broker` returns the broker, once there is one."""

    def __init__(self, world: World, broker: "Callable[[], Broker | None]") -> None:
        self._world = world
        self._broker = broker
        self._idleness = LoopIdle()
        self._idleness.measure(world.process_stats(), world.clock.mono_ms())
        self._waiting: dict[_Wanted, list[Reply]] = {}  # for pages that are being made
        routes = {
            "/": self._index,
            "/metrics": self._metrics,
            "/health/live": self._live,
            "/health/ready": self._ready,
            "/status": self._status,
        }
        urgent = ("/health/live", "/health/ready")
        self._server = HttpServer(world.network, world.clock, world.timers, routes, urgent)

    def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen and return the address; raise OSError if the address cannot be used."""
        return self._server.listen(host, port)

    def close(self) -> None:
        self._server.close()

    # -- small answers

    def _index(self, _request: HttpRequest, reply: Reply) -> None:
        reply(Response(200, _INDEX))

    def _live(self, _request: HttpRequest, reply: Reply) -> None:
        reply(_json(200, {"live": True}))  # the answer itself is the proof

    def _ready(self, _request: HttpRequest, reply: Reply) -> None:
        checks = readiness(self._broker())
        ready = not any(check.reason for check in checks)
        body: dict[str, Json] = {
            "ready": ready,
            "reasons": [check.reason for check in checks if check.reason],
            "checks": {check.name: not check.reason for check in checks},
        }
        reply(_json(200 if ready else 503, body))

    def _status(self, _request: HttpRequest, reply: Reply) -> None:
        broker = self._broker()
        if broker is None:
            reply(_json(503, {"reasons": ["the node is starting"]}))
        else:
            reply(_json(200, status(broker)))

    # -- the page

    def _metrics(self, request: HttpRequest, reply: Reply) -> None:
        broker = self._broker()
        if broker is None:
            reply(Response(503, b"The node is starting.\n"))
            return
        topics = request.parameters.get("partitions", "").split(",")
        asked = tuple(sorted({topic for topic in topics if topic}))
        wanted = _Wanted(asked, wants_openmetrics(request.headers.get("accept", "")))
        waiting = self._waiting.get(wanted)
        if waiting is not None:
            waiting.append(reply)
        elif len(self._waiting) >= PAGES_AT_ONCE_MAX:
            reply(Response(503, b"Other pages are being made; try again.\n"))
        else:
            self._waiting[wanted] = [reply]
            self._go_on(wanted, self._make(broker, wanted), [])

    def _make(self, broker: "Broker", wanted: _Wanted) -> Iterator[str]:
        # Loaded by the first scrape: a start should not have to wait for it.
        from penstock.broker.metrics.table import TABLE

        seen = MetricsSnapshot(broker, self._idleness, wanted.by_partition)
        for _ in seen.steps():
            yield ""
        yield from pieces(TABLE, seen, openmetrics=wanted.openmetrics)

    def _go_on(self, wanted: _Wanted, making: Iterator[str], made: list[str]) -> None:
        clock = self._world.clock
        until = clock.mono_ms() + SLICE_MS_MAX
        try:
            for piece in making:
                made.append(piece)
                if clock.mono_ms() >= until:
                    self._world.timers.soon(lambda: self._go_on(wanted, making, made))
                    return
        except Exception as error:  # a page changes nothing: no reason for a node to end
            log.error("the page of metrics cannot be made", exc_info=error)
            self._end(wanted, Response(500, b"This failed; the log of the node says why.\n"))
            return
        body = "".join(made).encode()
        kind = OPENMETRICS_TYPE if wanted.openmetrics else TEXT_TYPE
        self._end(wanted, Response(200, body, kind))

    def _end(self, wanted: _Wanted, response: Response) -> None:
        for reply in self._waiting.pop(wanted):
            reply(response)


def _json(code: int, value: Json) -> Response:
    return Response(code, json.dumps(value).encode() + b"\n", JSON_TYPE)
