"""The network of the operating system: listening and connecting, with TLS or without."""

import errno
import socket
import ssl
from collections.abc import Callable

from penstock.real.descriptors import connection_fd_max
from penstock.real.loop import READABLE, Loop
from penstock.real.outbound import CONNECT_MS_MAX, NAME_THREADS_MAX, Outbound
from penstock.real.sockets import SocketPeer, TurnBuffer
from penstock.real.tls_channel import TlsChannel
from penstock.real.tls_contexts import TlsContexts
from penstock.real.tls_handshake import Handshakes, TlsHandshake
from penstock.real.workers import Pool
from penstock.world import (
    Connecting,
    Peer,
    Receiver,
    Rejected,
    TlsFailed,
    TlsSettings,
    Tuning,
)

BACKLOG_DEFAULT = 1_024
PLAIN_TUNING = Tuning()
REST_MS = 100.0  # without free descriptors
REST_FOR_HANDSHAKES_MS = 5.0
_RETRY_ACCEPT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def _ignore(_address: tuple[str, int], _reason: str) -> None:
    """Ignore a failed handshake."""


class SocketListening:
    """A listening socket. With TLS, connections are accepted when their handshakes are done."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        buffer: TurnBuffer,
        accept: Callable[[Peer], Receiver],
        send_buffer_bytes: int | None,
        tls: ssl.SSLContext | None,
        rejected: Rejected,
        secured: "SecuredSockets",
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._buffer = buffer
        self._accept = accept
        self._send_buffer_bytes = send_buffer_bytes
        self._tls = tls
        self._rejected = rejected
        self._secured = secured
        self._paused = False
        self._fd_max = connection_fd_max()
        self.address: tuple[str, int] = sock.getsockname()[:2]
        loop.watch(sock.fileno(), READABLE, self._ready)

    def _ready(self, _mask: int) -> None:
        for _ in range(64):
            if self._paused or self._socket.fileno() < 0:
                return  # by a connection of this round
            if self._tls is not None and self._secured.handshakes.is_busy:
                self._rest(REST_FOR_HANDSHAKES_MS)
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _RETRY_ACCEPT:
                    self._rest(REST_MS)
                    return
                raise
            if sock.fileno() > self._fd_max:
                sock.close()  # the other descriptors are for files
                continue
            if self._send_buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            peer = SocketPeer(self._loop, sock, address[:2], self._buffer)
            if self._tls is None:
                peer.attach(self._accept(peer))
            else:
                self._shake_hands(peer, self._tls)

    def _shake_hands(self, peer: SocketPeer, context: ssl.SSLContext) -> None:
        def failed(reason: str) -> None:
            self._rejected(peer.address, reason)

        self._secured.handshakes.accept(peer, context, self._accept, failed)

    def reload(self, tls: TlsSettings) -> None:
        self._tls = self._secured.contexts.server(tls)

    def pause(self) -> None:
        self._paused = True
        self._wake()

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def _rest(self, rest_ms: float) -> None:
        """Pause accepting for a moment: a waiting connection would make the loop spin."""
        self._loop.poller.modify(self._socket.fileno(), 0)
        self._loop.at(self._loop.mono_ms() + rest_ms, self._wake)

    def _wake(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.poller.modify(self._socket.fileno(), 0 if self._paused else READABLE)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()


class SecuredSockets:
    """The contexts and the handshakes of all connections with TLS."""

    def __init__(self, loop: Loop, buffer: TurnBuffer) -> None:
        self.contexts = TlsContexts()
        self.handshakes = Handshakes(loop, buffer)


class SecuredConnecting:
    """An attempt to connect with TLS (world.Connecting)."""

    def __init__(self, attempt: Outbound) -> None:
        self._attempt = attempt
        self.handshake: TlsHandshake | None = None  # once the address is reached

    def cancel(self) -> None:
        self._attempt.cancel()
        if self.handshake is not None:
            self.handshake.cancel()


class SocketNetwork:
    """Listens and connects with TCP sockets."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._buffer = TurnBuffer()
        self._names = Pool(loop, NAME_THREADS_MAX)
        self._secured = SecuredSockets(loop, self._buffer)
        loop.turn_ended = self._buffer.turn_ended

    def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Peer], Receiver],
        tuning: Tuning = PLAIN_TUNING,
        tls: TlsSettings | None = None,
        rejected: Rejected = _ignore,
    ) -> SocketListening:
        context = None if tls is None else self._secured.contexts.server(tls)
        sock = bound_socket(host, port)
        sock.setblocking(False)
        if tuning.receive_buffer_bytes is not None:  # accepted sockets inherit it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, tuning.receive_buffer_bytes)
        sock.listen(BACKLOG_DEFAULT if tuning.backlog is None else tuning.backlog)
        return SocketListening(
            self._loop,
            sock,
            self._buffer,
            accept,
            tuning.send_buffer_bytes,
            context,
            rejected,
            self._secured,
        )

    def host_name(self) -> str:
        return socket.gethostname()

    def connect(
        self,
        host: str,
        port: int,
        opened: Callable[[Peer], Receiver],
        failed: Callable[[str], None],
        timeout_ms: float = CONNECT_MS_MAX,
        tls: TlsSettings | None = None,
    ) -> Connecting:
        def connected(sock: socket.socket) -> None:
            peer = SocketPeer(self._loop, sock, (host, port), self._buffer)
            if tls is None:
                peer.attach(opened(peer))
                return
            contexts = self._secured.contexts
            attempt.handshake = self._secured.handshakes.connect(
                peer, lambda: TlsChannel(contexts.client(tls), host), until_ms, opened, failed
            )

        outbound = Outbound(self._loop, (host, port), connected, failed)
        attempt = SecuredConnecting(outbound)
        until_ms = self._loop.mono_ms() + timeout_ms
        outbound.start(self._names, timeout_ms)
        return outbound if tls is None else attempt

    def prepare_tls(self, tls: TlsSettings, done: Callable[[TlsFailed | None], None]) -> None:
        def prepared(_result: None, failure: BaseException | None) -> None:
            if failure is not None and not isinstance(failure, TlsFailed):
                raise failure
            done(failure)

        self._secured.handshakes.workers.run(self._secured.contexts.prepare, (tls,), prepared)

    def prepare_tls_now(self, tls: TlsSettings) -> None:
        self._secured.contexts.prepare(tls)

    def close(self) -> None:
        """Break all open connections, as the end of a process does."""
        for handler in list(self._loop.handlers.values()):
            match getattr(handler, "__self__", None):
                case SocketPeer() as peer:
                    peer.vanish()
                case SocketListening() as listening:
                    listening.close()
                case Outbound() as attempt:
                    attempt.cancel()
        self._secured.handshakes.close()
        self._names.use(0)  # without a wait: a name server may be silent for long


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet; raise OSError if the address is in use."""
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family)
    elif socket.has_dualstack_ipv6():
        # An empty host means every address, IPv4 and IPv6, as Kafka's ':9092' does.
        sock = socket.socket(socket.AF_INET6)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        host = "::"
    else:
        sock = socket.socket(socket.AF_INET)
        host = "0.0.0.0"
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
