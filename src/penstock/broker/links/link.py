"""A link: requests to one node for one purpose, over one connection at a time.

A link connects for its first request. The deadline of a request includes the wait for the
connection. After a failure the link pauses before it connects again, longer each time and with
jitter; a request that comes during the pause waits for its end.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from penstock.broker.links.link_connection import LinkConnection, LinkFailed, LinkRequest
from penstock.credentials.mechanism import Mechanism
from penstock.errors import UnsupportedVersion
from penstock.world import (
    Clock,
    Connecting,
    Entropy,
    Network,
    Peer,
    Timer,
    Timers,
    TlsSettings,
    Workers,
)

R = TypeVar("R")

JITTER_PERCENT = 20
DOUBLINGS_MAX = 16


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """`client_id` names this node to its peers; `mechanism` logs it in by SASL."""

    client_id: str
    connect_timeout_ms: int = 10_000
    backoff_ms: int = 50
    backoff_ms_max: int = 1_000
    mechanism: Mechanism | None = None


class LinkWorld(Protocol):
    """The part of a world that links need."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def network(self) -> Network: ...
    @property
    def entropy(self) -> Entropy: ...
    @property
    def workers(self) -> Workers: ...


class Link:
    """Requests to one address."""

    def __init__(
        self,
        world: LinkWorld,
        host: str,
        port: int,
        settings: LinkSettings,
        find_tls: Callable[[], TlsSettings | None] = lambda: None,
    ) -> None:
        self.address = (host, port)
        self._find_tls = find_tls
        self._world = world
        self._settings = settings
        self._waiting: deque[LinkRequest[object]] = deque()  # for the connection
        self._connecting: Connecting | None = None
        self._connection: LinkConnection | None = None
        self._deadline: Timer | None = None  # of the opening
        self._pause: Timer | None = None
        self._failures = 0
        self._closed = False

    def __str__(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def versions(self) -> dict[int, tuple[int, int]] | None:
        """Return the versions that the peer serves, while the connection is open."""
        return None if self._connection is None else self._connection.versions

    def request(
        self,
        message: object,
        expect: type[R],
        timeout_ms: float,
        answered: Callable[[R | Exception], None],
        version_min: int = 0,
    ) -> LinkRequest[R]:
        """Send a request. `answered` gets, on a later turn, the response, LinkFailed, or
        UnsupportedVersion. Below `version_min` the message would lose a part of its meaning."""
        assert not self._closed, "a closed link takes no request"
        request = LinkRequest(message, expect, answered, version_min)
        text = f"{self} gave no answer to {request.api.name} within {timeout_ms:.0f} ms"
        request.timer = self._after(timeout_ms, lambda: self._expire(request, text))
        # A request knows the type of its response; the queue does not.
        self._waiting.append(request)  # type: ignore[arg-type]
        self._world.timers.soon(self._go_on)
        return request

    def _after(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        return self._world.timers.at(self._world.clock.mono_ms() + delay_ms, call)

    def _expire(self, request: LinkRequest[R], text: str) -> None:
        request.timer = None
        if self._connection is not None and self._connection.has(request):
            self._connection.end(text)
        else:
            self._waiting = deque(each for each in self._waiting if each is not request)
            request.finish(LinkFailed(text, unsent=True))

    def _go_on(self) -> None:
        """Send the waiting requests, or connect for them."""
        while self._waiting and self.versions is not None:
            request = self._waiting.popleft()
            if request.answered is not None:
                self._send(request)
        if self._waiting and not (self._connection or self._connecting or self._pause):
            self._connecting = self._world.network.connect(
                *self.address,
                self._accept,
                self._fail_connect,
                self._settings.connect_timeout_ms,
                self._find_tls(),
            )

    def _send(self, request: LinkRequest[object]) -> None:
        assert self._connection is not None, "there are versions, so there is a connection"
        try:
            self._connection.send(request)
        except UnsupportedVersion as failure:
            request.finish(failure)

    # The connection

    def _accept(self, peer: Peer) -> LinkConnection:
        self._connecting = None
        settings = self._settings
        login = None
        if settings.mechanism is not None:
            from penstock.broker.links.link_login import LinkLogin

            login = LinkLogin(self._world, settings.mechanism, str(self))
        made = LinkConnection(peer, str(self), settings.client_id, self._opened, self._lost, login)
        limit_ms = settings.connect_timeout_ms
        text = f"{self} did not answer ApiVersions within {limit_ms} ms"
        self._connection, self._deadline = made, self._after(limit_ms, lambda: made.end(text))
        return made

    def _fail_connect(self, reason: str) -> None:
        self._connecting = None
        self._lost(f"{self} cannot be reached: {reason}")

    def _opened(self) -> None:
        self._end_opening()
        self._failures = 0
        self._go_on()

    def _end_opening(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _lost(self, reason: str) -> None:
        """Fail the waiting requests, and pause before the next attempt."""
        self._end_opening()
        self._connection = None
        if not self._closed:
            self._failures += 1
            self._pause = self._after(self._backoff_ms(), self._end_pause)
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.finish(LinkFailed(reason, unsent=True))

    def _backoff_ms(self) -> int:
        doublings = min(self._failures - 1, DOUBLINGS_MAX)
        base = min(self._settings.backoff_ms_max, self._settings.backoff_ms << doublings)
        jitter = base * JITTER_PERCENT // 100
        return self._world.entropy.random_ms(base - jitter, base + jitter)

    def _end_pause(self) -> None:
        self._pause = None
        self._go_on()

    def close(self) -> None:
        """Close the connection; every request fails."""
        self._closed = True
        for ending in (self._connecting, self._pause):
            if ending is not None:
                ending.cancel()
        self._connecting = self._pause = None
        reason = f"the link to {self} is closed"
        if self._connection is not None:
            self._connection.end(reason)
        self._lost(reason)
