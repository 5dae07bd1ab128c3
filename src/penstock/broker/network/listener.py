"""One listening address: takes connections in, knows which APIs it serves, drops the idle.

On a listener with SASL a connection begins as a LoginConnection.
"""

import logging
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from penstock.broker.network.connection import BrokerConnection
from penstock.config.broker import BrokerConfig, ConfigSource
from penstock.config.listeners import SASL_PROTOCOLS
from penstock.credentials.der import DerBroken
from penstock.credentials.principal import Caller, Principal, plain_address
from penstock.security.distinguished_name import subject_name
from penstock.security.mapping_rules import MappingRules, NoRuleFits
from penstock.world import Listening, Network, Peer, Receiver, Timer, TlsSettings, Tuning

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.logins.listener_logins import ListenerLogins
    from penstock.broker.logins.session import SaslSession
    from penstock.broker.network.login_connection import LoginConnection

log = logging.getLogger("penstock.listener")

REAP_INTERVAL_MS_MAX = 10_000
FRAME_MS_MAX = 30_000  # from its first byte to its last, while other frames wait for memory
UNREAD_MS_MAX = 30_000  # a large answer without a byte read, while other requests wait
SLOW_PEER_MS_MAX = 600_000  # for one frame, or for reading what was sent
PLAIN = Tuning()


class ReservedAddress:
    """An address that a node listens on before its broker exists.

    OSError if the address is not free: a start that fails so has written nothing.
    """

    def __init__(
        self,
        network: Network,
        host: str,
        port: int,
        tuning: Tuning = PLAIN,
        tls: TlsSettings | None = None,
    ) -> None:
        self.listener: BrokerListener | None = None
        self.listening = network.listen(host, port, self._accept, tuning, tls, self._rejected)

    def _accept(self, peer: Peer) -> Receiver:
        assert self.listener is not None, "the loop runs only when every door has its listener"
        return self.listener.accept(peer)

    def _rejected(self, address: tuple[str, int], reason: str) -> None:
        if self.listener is not None:
            self.listener.handshake_failed(address, reason)


class BrokerListener:
    """Accepts peers for the broker under one listener name."""

    def __init__(self, broker: "Broker", name: str, *, controller: bool) -> None:
        settings = broker.settings
        self.broker = broker
        self.name = name
        self.protocol = broker.config.security_protocols[name]
        self._mapping_rules = MappingRules.parse(
            broker.config.tls_properties(name)["ssl.principal.mapping.rules"]
        )
        self.kind = "controller" if controller else "broker"
        self.frames = broker.frames
        self.frame_bytes_max = settings.socket_request_bytes_max
        self.now_ms = broker.world.clock.mono_ms
        self.connections: dict[BrokerConnection, None] = {}
        self.awaiting_login: dict[LoginConnection, None] = {}
        self.logins = self._make_logins()
        # Makes the connections; a cluster for tests replaces this.
        self.connect: Callable[[BrokerListener, Peer, float], BrokerConnection] = BrokerConnection
        # Since the start, for the metrics.
        self.opened = 0
        self.received_bytes = 0
        self.sent_bytes = 0
        self._connection_limits = broker.connection_limits
        self._listening: Listening | None = None
        self.draining = False  # nothing more is read: the node stops
        self._serving = False
        self._accepting = True
        self._accept_timer: Timer | None = None
        self.address = ("", 0)

    def _make_logins(self) -> "ListenerLogins | None":
        if self.protocol not in SASL_PROTOCOLS:
            return None
        # Loaded where they are used: most nodes start without logins.
        from penstock.broker.logins.listener_logins import ListenerLogins

        return ListenerLogins(self.broker, self.name)

    def open(self, door: "ReservedAddress") -> None:
        """Take over a reserved address. Clients are served after `serve`."""
        self._listening = door.listening
        self.address = door.listening.address
        door.listener = self
        self._schedule_reaping()

    @property
    def open_count(self) -> int:
        """Return the number of connections, before and after their logins."""
        return len(self.connections) + len(self.awaiting_login)

    def accept(self, peer: Peer) -> Receiver:
        connection = self._begin(peer)
        self.opened += 1
        if not self._serving:
            peer.pause()
        rejection = self._connection_limits.entered(self, connection)
        if rejection is not None:
            self.broker.rejections.limit_reached(peer.address, rejection)
            connection.close()
        elif self.broker.throttle.limits_connections:
            self._hold_to_quota(connection)
        self._look_for_room()
        return connection

    def _begin(self, peer: Peer) -> "BrokerConnection | LoginConnection":
        if self.logins is None:
            connection = self.connect(self, peer, self.now_ms())
            if peer.identity is not None:
                self._identify(connection, peer.identity)
            self.connections[connection] = None
            return connection
        from penstock.broker.network.login_connection import LoginConnection

        login = LoginConnection(self, self.logins, peer, self.now_ms())
        self.awaiting_login[login] = None
        return login

    def logged_in(
        self, login: "LoginConnection", caller: Caller, session: "SaslSession"
    ) -> BrokerConnection:
        """Return the connection of a peer that has logged in; the limits count it as before."""
        del self.awaiting_login[login]
        connection = self.connect(self, login.peer, self.now_ms())
        connection.caller, connection.session = caller, session
        self.broker.access.note_login(caller, session.mechanism, self.name)
        self.connections[connection] = None
        return connection

    def close_removed_users(self) -> None:
        """Close the connections whose users are no longer there: the credentials have changed."""
        logins = self.logins
        if logins is None:
            return
        for connection in list(self.connections):
            session = connection.session
            if session is not None and not logins.knows(session) and not connection.closing:
                reason = "its user was removed"
                self.broker.rejections.limit_reached(connection.peer.address, reason)
                connection.close()

    def reconfigured(self) -> None:
        """Use the changed settings of the broker."""
        self.frame_bytes_max = self.broker.settings.socket_request_bytes_max
        if self.logins is not None:
            self.logins.reconfigured()
            self.close_removed_users()

    def _identify(self, connection: BrokerConnection, certificate: bytes) -> None:
        """Take the caller from the certificate of the peer; close if no rule gives it a name."""
        try:
            name = self._mapping_rules.apply(subject_name(certificate))
        except (DerBroken, NoRuleFits) as problem:
            self.broker.rejections.protocol_error(
                connection.peer.address, f"a certificate without a principal: {problem}"
            )
            connection.close()
        else:
            connection.caller = connection.caller._replace(principal=Principal(name))
            self.broker.access.note_login(connection.caller, "TLS", self.name)

    def handshake_failed(self, address: tuple[str, int], reason: str) -> None:
        """Log a peer that could not connect, with what both sides speak."""
        self.broker.rejections.limit_reached(
            address, f"{reason}; the listener {self.name} speaks {self.protocol}"
        )

    def _hold_to_quota(self, connection: "BrokerConnection | LoginConnection") -> None:
        """Close a connection whose address opens too many, after a wait: a client that tries again
        at once does not get more of them."""
        address = connection.peer.address
        wait_ms = self.broker.throttle.connected(plain_address(address[0]))
        if wait_ms:
            reason = "its address opens connections faster than its quota allows"
            self.broker.rejections.limit_reached(address, reason)
            connection.peer.pause()
            self.broker.world.timers.at(self.now_ms() + wait_ms, connection.close)

    def accept_again(self) -> None:
        """Accept further, if the limits allow it: a connection ended, or the limits changed."""
        if not self._accepting:
            self._look_for_room()

    def _look_for_room(self) -> None:
        """Accept further, or pause until the limits allow the next connection."""
        wait_ms = self._connection_limits.wait_ms(self)
        if self._accept_timer is not None:
            self._accept_timer.cancel()
            self._accept_timer = None
        if 0 < wait_ms < inf:
            at = self.now_ms() + wait_ms
            self._accept_timer = self.broker.world.timers.at(at, self.accept_again)
        accepting = not wait_ms
        if accepting != self._accepting and self._listening is not None:
            self._accepting = accepting
            if accepting:
                self._listening.resume()
            else:
                self._listening.pause()

    def forget(self, connection: BrokerConnection) -> None:
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._connection_limits.left(connection)
        for call in connection.on_closed:
            call()

    def forget_login(self, connection: "LoginConnection") -> None:
        if connection in self.awaiting_login:
            del self.awaiting_login[connection]
            self._connection_limits.left(connection)

    def _schedule_reaping(self) -> None:
        if self._listening is None:
            return
        idle_ms = self.broker.settings.connections_idle_ms_max
        wait_ms = REAP_INTERVAL_MS_MAX
        if idle_ms >= 0:
            wait_ms = min(REAP_INTERVAL_MS_MAX, max(100, idle_ms // 4))
        self.broker.world.timers.at(self.now_ms() + wait_ms, self._reap)

    def _reap(self) -> None:
        now_ms = self.now_ms()
        idle_ms = self.broker.settings.connections_idle_ms_max
        oldest = now_ms - idle_ms if idle_ms >= 0 else -inf
        for connection in list(self.connections):
            # A peer with an unanswered request waits for this node, unless it stopped reading. So
            # does a peer whose frame waits for memory.
            unsent_bytes = connection.peer.unsent_bytes
            waiting = connection.replies and not unsent_bytes
            reading = unsent_bytes != connection.unsent_bytes_before
            if reading or not unsent_bytes:
                connection.read_at_ms = now_ms
            connection.unsent_bytes_before = unsent_bytes
            if waiting or reading or self.frames.is_waiting(connection):
                connection.active_at_ms = now_ms  # its answer is not the moment to close it
            elif connection.active_at_ms < oldest:
                log.debug("closing the idle connection from %s:%d", *connection.peer.address)
                connection.close()
            slow_since_ms = connection.slow_since_ms(now_ms)
            if slow_since_ms < now_ms - SLOW_PEER_MS_MAX and not connection.closing:
                reason = f"one frame or answer took more than {SLOW_PEER_MS_MAX // 60_000} minutes"
                self.broker.rejections.limit_reached(connection.peer.address, reason)
                connection.close()
        if self.frames.are_waiting:
            self._close_slow_frames(now_ms - FRAME_MS_MAX)
        if self.broker.long_requests.are_waiting:
            self._close_unread_answers(now_ms - UNREAD_MS_MAX)
        self._schedule_reaping()

    def _close_slow_frames(self, oldest_ms: float) -> None:
        """Close connections whose frames have been under way for too long, with memory that other
        frames wait for."""
        for connection in list(self.connections):
            is_slow = connection.memory_since_ms < oldest_ms
            if is_slow and not connection.closing and not self.frames.is_waiting(connection):
                reason = f"a frame took more than {FRAME_MS_MAX // 1_000} s, and others wait"
                self.broker.rejections.limit_reached(connection.peer.address, reason)
                connection.close()

    def _close_unread_answers(self, oldest_ms: float) -> None:
        """Close connections whose peers leave the answer to a long request unread for too long,
        with memory that other requests wait for."""
        for connection in list(self.connections):
            unread = connection.keeps_answer and connection.read_at_ms < oldest_ms
            if unread and not connection.closing:
                reason = f"a large answer was not read for {UNREAD_MS_MAX // 1_000} s, others wait"
                self.broker.rejections.limit_reached(connection.peer.address, reason)
                connection.close()

    def serve(self) -> None:
        """Serve clients, also those that connected early."""
        self._serving = True
        for connection in self.connections:
            connection.peer.resume()
        for login in self.awaiting_login:
            login.begin_deadline()
            login.peer.resume()

    def drain(self) -> None:
        """Accept and read no further; answer parked requests now."""
        self.draining = True
        self.stop_accepting()
        for login in list(self.awaiting_login):
            login.close()
        for connection in list(self.connections):
            connection.drain()

    def stop_accepting(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def close_all(self) -> None:
        self.stop_accepting()
        if self.logins is not None:
            self.logins.stop()
        for login in list(self.awaiting_login):
            login.close()
        for connection in list(self.connections):
            connection.close()


def tuning_of(config: BrokerConfig) -> Tuning:
    """Return the configured socket options. Kafka's defaults are smaller than those of the system,
    and cost throughput: they are not applied."""

    def chosen(name: str) -> int | None:
        value = config.integer(name)
        return None if value < 0 or config.source(name) is ConfigSource.DEFAULT else value

    return Tuning(
        chosen("socket.listen.backlog.size"),
        chosen("socket.send.buffer.bytes"),
        chosen("socket.receive.buffer.bytes"),
    )
