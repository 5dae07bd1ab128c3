"""Connections on the loop: receiving into one shared buffer, sending with sendfile.

Plain non-blocking sockets; asyncio's stream transports lose 2-5x on fetch.
"""

import contextlib
import errno
import os
import select
import socket
from collections import deque
from collections.abc import Sequence

from penstock.real.descriptors import Descriptor
from penstock.real.file import RealFile
from penstock.real.loop import READABLE, WRITABLE, Loop
from penstock.real.slow_calls import NamedCaller
from penstock.world import Buffer, DiskFailed, FileRange, Part, Receiver

TURN_BUFFER_BYTES = 4 * 1024 * 1024
RECEIVE_BYTES_MAX = 256 * 1024  # per connection and turn, so that none starves the others
SENDFILE_BYTES_MAX = 1024 * 1024  # per call
JOIN_BYTES_MAX = 256 * 1024  # small parts leave as one buffer
PARTS_PER_SEND_MAX = 512


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

    @property
    def identity(self) -> bytes | None:
        """Return None: a plain connection shows no certificate."""
        return None

    @property
    def is_closed(self) -> bool:
        return self._receiver is None

    def hand_over(self, receiver: Receiver) -> None:
        if self._receiver is not None:
            self._receiver = receiver

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._loop.watch(self._fd, self._mask, self._ready)
        if self._unsent:
            self._push()

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

    def has_ended(self, unread_bytes: int = 0) -> bool:
        """Return whether the other side has ended with at most so many bytes unread."""
        try:
            unread = len(self._socket.recv(unread_bytes + 1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        if not unread or unread > unread_bytes:
            return not unread
        poll = select.poll()
        poll.register(self._fd, getattr(select, "POLLRDHUP", 0))
        return bool(poll.poll(0))

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
