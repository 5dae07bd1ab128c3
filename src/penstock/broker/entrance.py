"""How many may come in: limits on connections and on how fast they come, of node and listener.

Like Kafka: beyond max.connections, or faster than max.connection.creation.rate, nobody is turned
away; the listener accepts no further until somebody leaves, or until it is time. An address with
too many connections is turned away. The brokers' own listener, if there is another one, does not
count for the node's limits; where it exceeds max.connections, the connection of another listener
that has been silent longest is closed for it.
"""

from math import inf
from typing import TYPE_CHECKING

from penstock.config.key import INT_MAX

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.connection import Connection
    from penstock.broker.listener import Listener

WAIT_MS_MAX = 1_000.0  # for the next connection, however low the rate is
WAIT_MS_MIN = 0.01
_MAPPED = "::ffff:"  # how a socket for IPv6 names an IPv4 peer


def plain_address(host: str) -> str:
    return host.removeprefix(_MAPPED)


class Pace:
    """So many a second, and as many at once after a second without any."""

    __slots__ = ("_at_ms", "_left", "_rate")

    def __init__(self) -> None:
        self._rate = float(INT_MAX)
        self._left = self._rate
        self._at_ms = 0.0

    def use(self, rate: int, now_ms: float) -> None:
        """Another rate from now on."""
        rate = max(rate, 1)
        if rate != self._rate:
            self._rate = self._left = float(rate)
            self._at_ms = now_ms

    def take(self, now_ms: float) -> None:
        """One has come, whether it was its time or not."""
        self._gain(now_ms)
        self._left -= 1

    def wait_ms(self, now_ms: float) -> float:
        """How long the next one has to wait; 0 is not at all."""
        self._gain(now_ms)
        if self._left >= 1:
            return 0.0
        # Not less than a clock can tell: what is left after a rounding would be waited for again.
        return min(WAIT_MS_MAX, max(WAIT_MS_MIN, (1 - self._left) * 1000 / self._rate))

    def _gain(self, now_ms: float) -> None:
        gained = (now_ms - self._at_ms) * self._rate / 1000
        self._left = min(self._rate, self._left + gained)
        self._at_ms = now_ms


class Entrance:
    """Counts the connections of all listeners of a node."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._now_ms = broker.world.clock.mono_ms
        self._per_address: dict[str, int] = {}
        self._count = 0
        self._pace = Pace()
        self._paces: dict[str, Pace] = {}

    def reconfigured(self) -> None:
        """Limits may have changed: those who had to wait may come in."""
        for listener in self._broker.listeners:
            listener.accept_again()

    def entered(self, listener: "Listener", connection: "Connection") -> str | None:
        """Count a connection that was accepted; why it must go again, if it must."""
        settings, now_ms = self._broker.settings, self._now_ms()
        self._count += 1
        for pace in self._paces_of(listener, now_ms):
            pace.take(now_ms)
        if self._count > settings.connections_max and self._is_protected(listener):
            self._close_silent(listener)
        host = plain_address(connection.peer.address[0])
        count = self._per_address[host] = self._per_address.get(host, 0) + 1
        limit = settings.connections_per_address.get(host, settings.connections_per_address_max)
        if count > limit:
            return f"max.connections.per.ip={limit} are open from there"
        return None

    def left(self, connection: "Connection") -> None:
        self._count -= 1
        host = plain_address(connection.peer.address[0])
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        for listener in self._broker.listeners:
            listener.accept_again()

    def wait_ms(self, listener: "Listener") -> float:
        """How long the listener must not accept: 0 is not at all, inf until somebody leaves."""
        config, now_ms = self._broker.config, self._now_ms()
        if len(listener.connections) >= config.of_listener(listener.name, "max.connections"):
            return inf
        if self._count >= self._broker.settings.connections_max:
            if not self._is_protected(listener):
                return inf
        return max(pace.wait_ms(now_ms) for pace in self._paces_of(listener, now_ms))

    def _paces_of(self, listener: "Listener", now_ms: float) -> list[Pace]:
        own = self._paces.get(listener.name)
        if own is None:
            own = self._paces[listener.name] = Pace()
        name = "max.connection.creation.rate"
        own.use(self._broker.config.of_listener(listener.name, name), now_ms)
        if self._is_protected(listener):
            return [own]
        self._pace.use(self._broker.config.integer(name), now_ms)
        return [self._pace, own]

    def _is_protected(self, listener: "Listener") -> bool:
        several = len(self._broker.listeners) > 1
        return several and listener.name == self._broker.config.inter_broker_listener_name

    def _close_silent(self, guest: "Listener") -> None:
        others = [
            connection
            for listener in self._broker.listeners
            if listener is not guest
            for connection in listener.connections
            if not connection.closing
        ]
        if others:
            silent = min(others, key=lambda each: each.active_at_ms)
            limit = self._broker.settings.connections_max
            reason = f"max.connections={limit} are open, and another broker needs one"
            self._broker.observe.turned_away(silent.peer.address, reason)
            silent.close()
