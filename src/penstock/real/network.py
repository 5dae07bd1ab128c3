"""Sockets on the loop: listening, receiving into one shared buffer, sending with sendfile.

Plain non-blocking sockets; asyncio's stream transports lose 2-5x on fetch.
"""

import contextlib
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from penstock.real.descriptors import Descriptor, connection_fd_max
from penstock.real.file import RealFile
from penstock.real.loop import READABLE, WRITABLE, Loop
from penstock.real.outbound import CONNECT_MS_MAX, NAME_THREADS_MAX, Outbound
from penstock.real.slow_calls import NamedCaller
from penstock.real.workers import Pool
from penstock.world import Buffer, Connecting, DiskFailed, FileRange, Part, Peer, Receiver, Tuning

TURN_BUFFER_BYTES = 4 * 1024 * 1024
RECEIVE_BYTES_MAX = 256 * 1024  # per connection and turn, so that none starves the others
SENDFILE_BYTES_MAX = 1024 * 1024  # per call
JOIN_BYTES_MAX = 256 * 1024  # small parts leave as one buffer
BACKLOG_DEFAULT = 1_024
PARTS_PER_SEND_MAX = 512
PLAIN_TUNING = Tuning()
_RETRY_ACCEPT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class TurnBuffer:
    """The receive buffer of a turn. Views of it are valid until the turn ends."""

    __slots__ = ("_used", "_view")

    def __init__(self) -> None:
        self._view = memoryview(bytearray(TURN_BUFFER_BYTES))
        self._used = 0

    def room(self) -> memoryview:
        if self._used + RECEIVE_BYTES_MAX > TURN_BUFFER_BYTES:
            # Views keep the old buffer alive; the new one serves the rest of the turn.
            self._view = memoryview(bytearray(TURN_BUFFER_BYTES))
            self._used = 0
        return self._view[self._used : self._used + RECEIVE_BYTES_MAX]

    def used(self, size: int) -> None:
        self._used += size

    def turn_ended(self) -> None:
        self._used = 0


class SocketPeer:
    """One connection. All calls happen on the loop."""

    __slots__ = (
        "_buffer",
        "_fd",
        "_finishing",
        "_loop",
        "_mask",
        "_receiver",
        "_socket",
        "_unsent",
        "_unsent_bytes",
        "address",
    )

    def __init__(
        self, loop: Loop, sock: socket.socket, address: tuple[str, int], buffer: TurnBuffer
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._socket = sock
        self._fd = sock.fileno()
        self._buffer = buffer
        self._unsent: deque[Part] = deque()
        self._unsent_bytes = 0
        self._receiver: Receiver | None = None
        self._finishing = False
        self._mask = READABLE
        self.address = address

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def fileno(self) -> int:
        return self._fd

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._loop.watch(self._fd, self._mask, self._ready)
        if self._unsent:
            self._push()

    def hand_over(self, receiver: Receiver) -> None:
        if self._receiver is not None:
            self._receiver = receiver

    def describe(self) -> str:
        """Return what the receiver handles now (real/slow_calls.py)."""
        if isinstance(self._receiver, NamedCaller):
            return self._receiver.describe()
        return f"the connection with {self.address[0]}:{self.address[1]}"

    # -- receiving

    def _ready(self, mask: int) -> None:
        if mask & WRITABLE:
            self._push()
        if mask & ~WRITABLE and self._receiver is not None:
            if self._mask & READABLE:
                self._receive(self._receiver)
            elif mask & ~READABLE & ~WRITABLE:
                self._drop()  # reset while paused: our answers have no reader

    def _receive(self, receiver: Receiver) -> None:
        room = receiver.room
        target = self._buffer.room() if room is None else room
        try:
            size = self._socket.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if size == 0:
            self._drop()
        elif self._finishing:
            pass
        elif room is not None:
            receiver.filled(size)
        else:
            self._buffer.used(size)
            receiver.received(target[:size])

    def pause(self) -> None:
        self._set_mask(self._mask & ~READABLE)

    def resume(self) -> None:
        self._set_mask(self._mask | READABLE)

    def has_ended(self) -> bool:
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def _set_mask(self, mask: int) -> None:
        if mask != self._mask:
            self._mask = mask
            if self._receiver is not None:
                self._loop.poller.modify(self._fd, mask)

    # -- sending

    def send(self, parts: Sequence[Part]) -> None:
        attached = self._receiver is not None
        if (
            attached
            and not self._unsent
            and len(parts) == 1
            and not isinstance(parts[0], FileRange)
        ):
            self._send_one(parts[0])
            return
        if not attached and self._socket.fileno() < 0:
            return  # closed
        self._unsent.extend(parts)
        self._unsent_bytes += sum(
            part.size if isinstance(part, FileRange) else len(part) for part in parts
        )
        if attached and not self._mask & WRITABLE:
            self._push()

    def _send_one(self, part: Buffer) -> None:
        try:
            sent = self._socket.send(part)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._drop()
            return
        if sent < len(part):
            self._unsent.append(memoryview(part)[sent:])
            self._unsent_bytes += len(part) - sent
            self._set_mask(self._mask | WRITABLE)

    def _push(self) -> None:
        try:
            while self._unsent and self._push_some():
                pass
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, DiskFailed):
            self._drop()
            return
        if self._unsent:
            self._set_mask(self._mask | WRITABLE)
            return
        self._set_mask(self._mask & ~WRITABLE)
        if self._receiver is not None:
            self._receiver.sent()

    def _push_some(self) -> bool:
        first = self._unsent[0]
        if isinstance(first, FileRange):
            return self._push_range(first)
        buffers: list[Buffer] = []
        size = 0
        for part in self._unsent:
            if isinstance(part, FileRange) or len(buffers) == PARTS_PER_SEND_MAX:
                break
            buffers.append(part)
            size += len(part)
        more = len(buffers) < len(self._unsent)
        flags = socket.MSG_MORE if more and hasattr(socket, "MSG_MORE") else 0
        if size <= JOIN_BYTES_MAX and len(buffers) > 1:
            sent = self._socket.send(b"".join(buffers), flags)
        else:
            sent = self._socket.sendmsg(buffers, (), flags)
        self._forget(sent)
        return sent == size

    def _push_range(self, piece: FileRange) -> bool:
        file = piece.file
        if not isinstance(file, RealFile):  # an in-memory disk under real sockets
            self._unsent[0] = file.read_now(piece.position, piece.size)
            return True
        count = min(piece.size, SENDFILE_BYTES_MAX)
        held = piece.held
        source = held.fd if isinstance(held, Descriptor) else file.fileno()
        sent = os.sendfile(self._fd, source, piece.position, count)
        if sent == 0:
            # The file is shorter than the header promised: the peer could not parse the rest.
            raise OSError(errno.EIO, f"{file.path} came up short")
        self._unsent_bytes -= sent
        if sent == piece.size:
            self._unsent.popleft()
        else:
            self._unsent[0] = piece.after(sent)
        return sent == count

    def _forget(self, sent: int) -> None:
        self._unsent_bytes -= sent
        unsent = self._unsent
        while unsent:  # empty parts too: an empty first part would be sent for ever
            first = unsent[0]
            if isinstance(first, FileRange):
                break
            if len(first) > sent:
                unsent[0] = memoryview(first)[sent:]
                return
            sent -= len(first)
            unsent.popleft()
        assert not sent, "buffers and ranges are sent apart"

    # -- ending

    def finish(self) -> None:
        # Closing with unread bytes would reset the connection, and the peer would lose unread
        # answers.
        self._finishing = True
        self.resume()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        # Also before `attach`: a connection may be rejected during its accept.
        self._loop.soon(self._drop)

    def vanish(self) -> None:
        """Break the connection without notifying its receiver: the node is gone."""
        self._receiver = None
        self._loop.unwatch(self._fd)
        self._socket.close()

    def _drop(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is None:
            return
        self._loop.unwatch(self._fd)
        self._socket.close()
        self._unsent.clear()
        self._unsent_bytes = 0
        receiver.closed()


class SocketListening:
    """A listening socket."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        buffer: TurnBuffer,
        accept: Callable[[Peer], Receiver],
        send_buffer_bytes: int | None,
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._buffer = buffer
        self._accept = accept
        self._send_buffer_bytes = send_buffer_bytes
        self._paused = False
        self._fd_max = connection_fd_max()
        self.address: tuple[str, int] = sock.getsockname()[:2]
        loop.watch(sock.fileno(), READABLE, self._ready)

    def _ready(self, _mask: int) -> None:
        for _ in range(64):
            if self._paused or self._socket.fileno() < 0:
                return  # by a connection of this round
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _RETRY_ACCEPT:
                    self._rest()
                    return
                raise
            if sock.fileno() > self._fd_max:
                sock.close()  # the other descriptors are for files
                continue
            if self._send_buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
            peer = SocketPeer(self._loop, sock, address[:2], self._buffer)
            peer.attach(self._accept(peer))

    def pause(self) -> None:
        self._paused = True
        self._wake()

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def _rest(self) -> None:
        """Pause accepting for 100 ms. Without free descriptors, a waiting connection would make the
        loop spin."""
        self._loop.poller.modify(self._socket.fileno(), 0)
        self._loop.at(self._loop.mono_ms() + 100, self._wake)

    def _wake(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.poller.modify(self._socket.fileno(), 0 if self._paused else READABLE)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
            self._socket.close()


class SocketNetwork:
    """Listens and connects with TCP sockets."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._buffer = TurnBuffer()
        self._names = Pool(loop, NAME_THREADS_MAX)
        loop.turn_ended = self._buffer.turn_ended

    def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Peer], Receiver],
        tuning: Tuning = PLAIN_TUNING,
    ) -> SocketListening:
        sock = bound_socket(host, port)
        sock.setblocking(False)
        if tuning.receive_buffer_bytes is not None:  # accepted sockets inherit it
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, tuning.receive_buffer_bytes)
        sock.listen(BACKLOG_DEFAULT if tuning.backlog is None else tuning.backlog)
        return SocketListening(self._loop, sock, self._buffer, accept, tuning.send_buffer_bytes)

    def host_name(self) -> str:
        return socket.gethostname()

    def connect(
        self,
        host: str,
        port: int,
        opened: Callable[[Peer], Receiver],
        failed: Callable[[str], None],
        timeout_ms: float = CONNECT_MS_MAX,
    ) -> Connecting:
        def connected(sock: socket.socket) -> None:
            peer = SocketPeer(self._loop, sock, (host, port), self._buffer)
            peer.attach(opened(peer))

        attempt = Outbound(self._loop, (host, port), connected, failed)
        attempt.start(self._names, timeout_ms)
        return attempt

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
