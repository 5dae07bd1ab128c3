"""Limits on the number and the rate of connections, per node and per listener.

As in Kafka, a listener beyond max.connections or max.connection.creation.rate stops to accept until
a connection ends, or until the rate allows the next one. A connection beyond max.connections.per.ip
is closed. The inter-broker listener, if there is another one, is exempt from the node's limits:
beyond max.connections, the longest idle connection of another listener is closed.
"""

from math import inf
from typing import TYPE_CHECKING

from penstock.config.key import INT_MAX
from penstock.credentials.principal import plain_address

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.network.connection import BrokerConnection
    from penstock.broker.network.listener import BrokerListener
    from penstock.broker.network.login_connection import LoginConnection

WAIT_MS_MAX = 1_000.0  # for the next connection, however low the rate is
WAIT_MS_MIN = 0.01


class ConnectionRate:
    """A token bucket: so many connections a second, and as many at once after an idle second."""

    __slots__ = ("_at_ms", "_left", "_rate")

    def __init__(self) -> None:
        self._rate = float(INT_MAX)
        self._left = self._rate
        self._at_ms = 0.0

    def use(self, rate: int, now_ms: float) -> None:
        """Use another rate from now on."""
        rate = max(rate, 1)
        if rate != self._rate:
            self._rate = self._left = float(rate)
            self._at_ms = now_ms

    def take(self, now_ms: float) -> None:
        """Count a connection, also if it came too early."""
        self._gain(now_ms)
        self._left -= 1

    def wait_ms(self, now_ms: float) -> float:
        """Return how long the next connection has to wait."""
        self._gain(now_ms)
        if self._left >= 1:
            return 0.0
        # Not less than the clock resolves: a rounded rest would have to be waited for again.
        return min(WAIT_MS_MAX, max(WAIT_MS_MIN, (1 - self._left) * 1000 / self._rate))

    def _gain(self, now_ms: float) -> None:
        gained = (now_ms - self._at_ms) * self._rate / 1000
        self._left = min(self._rate, self._left + gained)
        self._at_ms = now_ms


class ConnectionLimits:
    """Counts the connections of all listeners of a node."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._now_ms = broker.world.clock.mono_ms
        self._per_address: dict[str, int] = {}
        self._count = 0
        self._pace = ConnectionRate()
        self._paces: dict[str, ConnectionRate] = {}

    def reconfigured(self) -> None:
        """Let listeners accept again, if changed limits allow it."""
        for listener in self._broker.listeners:
            listener.accept_again()

    def entered(
        self, listener: "BrokerListener", connection: "BrokerConnection | LoginConnection"
    ) -> str | None:
        """Count an accepted connection; return the reason to close it, if there is one."""
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

    def left(self, connection: "BrokerConnection | LoginConnection") -> None:
        self._count -= 1
        host = plain_address(connection.peer.address[0])
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        for listener in self._broker.listeners:
            listener.accept_again()

    def wait_ms(self, listener: "BrokerListener") -> float:
        """Return how long the listener must not accept; inf until a connection ends."""
        config, now_ms = self._broker.config, self._now_ms()
        if listener.open_count >= config.of_listener(listener.name, "max.connections"):
            return inf
        if self._count >= self._broker.settings.connections_max:
            if not self._is_protected(listener):
                return inf
        return max(pace.wait_ms(now_ms) for pace in self._paces_of(listener, now_ms))

    def _paces_of(self, listener: "BrokerListener", now_ms: float) -> list[ConnectionRate]:
        own = self._paces.get(listener.name)
        if own is None:
            own = self._paces[listener.name] = ConnectionRate()
        name = "max.connection.creation.rate"
        own.use(self._broker.config.of_listener(listener.name, name), now_ms)
        if self._is_protected(listener):
            return [own]
        self._pace.use(self._broker.config.integer(name), now_ms)
        return [self._pace, own]

    def _is_protected(self, listener: "BrokerListener") -> bool:
        several = len(self._broker.listeners) > 1
        return several and listener.name == self._broker.config.inter_broker_listener_name

    def _close_silent(self, guest: "BrokerListener") -> None:
        others: list[BrokerConnection | LoginConnection] = []
        for listener in self._broker.listeners:
            if listener is not guest:
                others += listener.connections
                others += listener.awaiting_login
        others = [each for each in others if not each.closing]
        if others:
            silent = min(others, key=lambda each: each.active_at_ms)
            limit = self._broker.settings.connections_max
            reason = f"max.connections={limit} are open, and another broker needs one"
            self._broker.rejections.limit_reached(silent.peer.address, reason)
            silent.close()
