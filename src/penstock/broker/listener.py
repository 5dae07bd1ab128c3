"""One listening address: takes connections in, knows which APIs it serves, drops the idle."""

import logging
from typing import TYPE_CHECKING

from penstock.broker.connection import Connection
from penstock.world import Listening, Network, Peer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.listener")

REAP_INTERVAL_MS_MAX = 10_000


class Door:
    """An address that was taken before there is a broker to serve on it.

    OSError if it cannot be had: a start that fails for that should not have written anything.
    """

    def __init__(self, network: Network, host: str, port: int) -> None:
        self.listener: Listener | None = None
        self.listening = network.listen(host, port, self._accept)

    def _accept(self, peer: Peer) -> Connection:
        assert self.listener is not None, "the loop runs only when every door has its listener"
        return self.listener.accept(peer)


class Listener:
    """Accepts peers for the broker under one listener name."""

    def __init__(self, broker: "Broker", name: str, *, controller: bool) -> None:
        settings = broker.settings
        self.broker = broker
        self.name = name
        self.kind = "controller" if controller else "broker"
        self.frames = broker.frames
        self.frame_bytes_max = settings.socket_request_bytes_max
        self.now_ms = broker.world.clock.mono_ms
        self.connections: dict[Connection, None] = {}
        self._per_address: dict[str, int] = {}
        self._listening: Listening | None = None
        self._serving = False
        self.address = ("", 0)

    def open(self, door: "Door") -> None:
        """Take over an address that is listened on. Nobody is served before `serve`."""
        self._listening = door.listening
        self.address = door.listening.address
        door.listener = self
        self._schedule_reaping()

    def accept(self, peer: Peer) -> Connection:
        connection = Connection(self, peer, self.now_ms())
        settings = self.broker.settings
        host = peer.address[0]
        count = self._per_address.get(host, 0) + 1
        self.connections[connection] = None
        self._per_address[host] = count
        if not self._serving:
            peer.pause()
        if len(self.connections) > settings.connections_max:
            self._turn_away(connection, f"max.connections={settings.connections_max} are open")
        elif count > settings.connections_per_address_max:
            limit = settings.connections_per_address_max
            self._turn_away(connection, f"max.connections.per.ip={limit} are open from there")
        return connection

    def _turn_away(self, connection: Connection, reason: str) -> None:
        self.broker.observe.turned_away(connection.peer.address, reason)
        connection.close()

    def forget(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        del self.connections[connection]
        host = connection.peer.address[0]
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        for call in connection.on_closed:
            call()

    def _schedule_reaping(self) -> None:
        idle_ms = self.broker.settings.connections_idle_ms_max
        if idle_ms < 0 or self._listening is None:
            return
        wait_ms = min(REAP_INTERVAL_MS_MAX, max(100, idle_ms // 4))
        self.broker.world.timers.at(self.now_ms() + wait_ms, self._reap)

    def _reap(self) -> None:
        now_ms = self.now_ms()
        oldest = now_ms - self.broker.settings.connections_idle_ms_max
        for connection in list(self.connections):
            # A peer with an unanswered request is waiting for us, unless it has stopped reading;
            # and so is one whose frame waits for memory of ours.
            unsent_bytes = connection.peer.unsent_bytes
            waiting = connection.replies and not unsent_bytes
            reading = unsent_bytes != connection.unsent_bytes_before
            connection.unsent_bytes_before = unsent_bytes
            if waiting or reading or self.frames.is_waiting(connection):
                connection.active_at_ms = now_ms  # its answer is not the moment to close it
            elif connection.active_at_ms < oldest:
                log.debug("closing the idle connection from %s:%d", *connection.peer.address)
                connection.close()
        self._schedule_reaping()

    def serve(self) -> None:
        """Answer those who came early, and all who come."""
        self._serving = True
        for connection in self.connections:
            connection.peer.resume()

    def drain(self) -> None:
        """Take in nothing more; what is parked is answered with what there is."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.drain()

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def close_all(self) -> None:
        self.stop_accepting()
        for connection in list(self.connections):
            connection.close()
