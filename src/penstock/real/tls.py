"""Encrypted connections on the loop.

One thread at a time owns the TLS object of a connection. The loop does small work itself: less than
32 KB received, or 64 KB sent. A worker does the rest, one job per connection at a time and at most
256 KB of it in each direction; OpenSSL works without Python's lock. Meanwhile input and output wait
in their order and count as bytes in flight. Above a limit the socket is not read. A range of a file
is read when the socket takes its bytes.

On two processors the loop decrypts everything, a bounded number of records a turn: a worker needs
Python's lock again for each record, and takes half as much CPU again (three rounds of librdkafka's
messages of 1 KB: 1.2 us each by the loop, 1.8 by a worker, at a lower rate).
"""

import os
import ssl
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from penstock.real.descriptors import Descriptor
from penstock.real.file import RealFile
from penstock.real.loop import Loop
from penstock.real.slow_calls import NamedCaller
from penstock.real.sockets import SocketPeer, TurnBuffer
from penstock.real.tls_channel import HeldRange, TlsChannel
from penstock.real.workers import Pool
from penstock.world import Buffer, FileRange, Part, Receiver

RECEIVED_BY_WORKER_MIN = 32 * 1024 if (os.cpu_count() or 1) > 2 else 1 << 62
RECORDS_PER_TURN_MAX = 1_024  # by the loop: about two milliseconds
SENT_BY_WORKER_MIN = 64 * 1024
JOB_BYTES_MAX = 256 * 1024  # in each direction
RECEIVED_BYTES_MAX = 256 * 1024  # that wait for decryption
ENCRYPTED_BYTES_MAX = 512 * 1024  # that wait for the socket
# The record that announces an end, as the largest ciphers write it.
END_RECORD_BYTES_MAX = 96


class TlsWork(NamedTuple):
    """The result of a job."""

    plain: memoryview
    encrypted: bytes


def _work(
    channel: TlsChannel, received: Sequence[Buffer], parts: Sequence[Buffer | HeldRange]
) -> TlsWork:
    """Decrypt and encrypt, in a worker."""
    encrypted = channel.write_all(parts) if parts else b""
    plain = channel.read_all(received) if received else memoryview(b"")
    return TlsWork(plain, encrypted)


class TlsPeer:
    """One encrypted connection after its handshake (world.Peer). All calls happen on the loop."""

    __slots__ = (
        "_buffer",
        "_channel",
        "_going_on",
        "_job_bytes",
        "_loop",
        "_lost",
        "_over",
        "_parts",
        "_parts_bytes",
        "_paused",
        "_plain",
        "_received",
        "_received_bytes",
        "_receiver",
        "_socket",
        "_workers",
        "_working",
        "address",
        "identity",
        "room",
    )

    def __init__(
        self,
        loop: Loop,
        socket: SocketPeer,
        channel: TlsChannel,
        buffer: TurnBuffer,
        workers: Pool,
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._channel = channel
        self._buffer = buffer
        self._workers = workers
        self._receiver: Receiver | None = None
        self._received: deque[Buffer] = deque()  # encrypted
        self._received_bytes = 0
        self._plain = memoryview(b"")  # decrypted during a pause
        self._parts: deque[Part] = deque()
        self._parts_bytes = 0
        self._job_bytes = 0  # being encrypted
        self._working = False  # a worker has the channel
        self._going_on = False
        self._paused = False
        self._lost = False  # the socket is closed; bytes that came before may wait
        self._over = False  # nothing more is handed over
        self.room: memoryview | None = None  # encrypted bytes come in the buffer of the turn
        self.address = socket.address
        self.identity = channel.certificate()

    @property
    def unsent_bytes(self) -> int:
        return self._parts_bytes + self._job_bytes + self._socket.unsent_bytes

    def attach(self, receiver: Receiver) -> None:
        """Begin to read. Bytes may have come with the end of the handshake."""
        self._receiver = receiver
        if self._socket.is_closed:
            self._lost = True
        self._read()
        if self._lost and not self._over:
            self._go_on_soon()

    def hand_over(self, receiver: Receiver) -> None:
        if self._receiver is not None:
            self._receiver = receiver

    def describe(self) -> str:
        """Return what the receiver handles now (real/slow_calls.py)."""
        if isinstance(self._receiver, NamedCaller):
            return self._receiver.describe()
        return f"the encrypted connection with {self.address[0]}:{self.address[1]}"

    # -- receiving

    def received(self, data: memoryview) -> None:
        if self._over:
            return
        if self._working or self._paused or self._received or self._plain:
            self._keep(data)
        elif len(data) < RECEIVED_BY_WORKER_MIN:
            self._channel.feed(data)
            self._read()
        else:
            self._keep(data)
            self._go_on()

    def filled(self, size: int) -> None:
        raise AssertionError(f"no room was given for these {size} bytes")

    def _keep(self, data: memoryview) -> None:
        self._received.append(bytes(data))
        self._received_bytes += len(data)
        if self._received_bytes >= RECEIVED_BYTES_MAX:
            self._socket.pause()

    def _read(self) -> None:
        """Decrypt on the loop what the channel has, and hand it over."""
        channel, records = self._channel, RECORDS_PER_TURN_MAX
        try:
            while not (self._paused or self._working or self._over) and channel.has_input:
                receiver = self._receiver
                if receiver is None:
                    return
                room = receiver.room
                target = self._buffer.room() if room is None else room
                size = channel.read_into(target, records)
                if not size:
                    break
                records -= channel.records
                if room is None:
                    self._buffer.used(size)
                    receiver.received(target[:size])
                else:
                    receiver.filled(size)
                if records <= 0:
                    self._go_on_soon()
                    return
        except ssl.SSLError:
            self._break()
            return
        if not self._working:
            self._after_reading()

    def _after_reading(self) -> None:
        """Send what OpenSSL answers by itself, and end with the other side."""
        answer = self._channel.take()
        if answer:
            self._socket.send((answer,))
        if self._paused or self._plain or self._received:
            return
        if self._lost:
            self._end()
        elif self._channel.ended:
            self._over = True
            self._socket.close()

    def _hand_over(self) -> None:
        """Hand over decrypted bytes, as far as the receiver takes them."""
        while self._plain and not (self._paused or self._over):
            receiver = self._receiver
            if receiver is None:
                return
            plain, room = self._plain, receiver.room
            if room is None:
                self._plain = memoryview(b"")
                receiver.received(plain)
            else:
                size = min(len(room), len(plain))
                if not size:
                    return  # the receiver waits for memory, and pauses
                room[:size] = plain[:size]
                self._plain = plain[size:]
                receiver.filled(size)

    def pause(self) -> None:
        self._paused = True
        self._socket.pause()

    def resume(self) -> None:
        self._paused = False
        if self._plain or self._received or self._channel_waits():
            # On a turn of its own: this may be the end of one, when nothing new may begin.
            self._go_on_soon()
        else:
            self._socket.resume()

    def _channel_waits(self) -> bool:
        if self._working:
            return False
        return self._lost or self._channel.has_input or self._channel.ended

    def has_ended(self) -> bool:
        waiting = self._working or self._plain or self._received or self._channel.has_input
        return not waiting and self._socket.has_ended(END_RECORD_BYTES_MAX)

    # -- sending

    def send(self, parts: Sequence[Part]) -> None:
        if self._over:
            return
        size = 0
        small = not (self._parts or self._working)
        for part in parts:
            if isinstance(part, FileRange):
                size += part.size
                small = False
            else:
                size += len(part)
        if not small or size >= SENT_BY_WORKER_MIN:
            self._parts.extend(parts)
            self._parts_bytes += size
            self._go_on()
            return
        data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
        self._encrypt(data)  # type: ignore[arg-type]

    def _encrypt(self, data: Buffer) -> None:
        try:
            encrypted = self._channel.write(data)
        except ssl.SSLError:
            self._break()
        else:
            self._socket.send((encrypted,))

    def sent(self) -> None:
        if self._parts:
            self._go_on()
        elif not self._working and self._receiver is not None and not self._over:
            self._receiver.sent()

    # -- jobs

    def _go_on_soon(self) -> None:
        if not self._going_on:
            self._going_on = True
            self._loop.soon(self._go_on)

    def _go_on(self) -> None:
        """Go on with the bytes that wait: in a worker if they are many."""
        self._going_on = False
        if self._working or self._over:
            return
        self._hand_over()
        if self._working or self._over:
            return  # by what the receiver did
        sends = bool(self._parts) and self._socket.unsent_bytes < ENCRYPTED_BYTES_MAX
        reads = not self._paused and not self._plain
        ranges = sends and any(isinstance(each, FileRange) for each in self._parts)
        is_large = (reads and self._received_bytes >= RECEIVED_BY_WORKER_MIN) or (
            sends and (ranges or self._parts_bytes >= SENT_BY_WORKER_MIN)
        )
        try:
            if is_large:
                self._begin_job(sends, reads)
                return
            if sends:
                parts, self._parts, self._parts_bytes = self._parts, deque(), 0
                self._encrypt(b"".join(parts))  # type: ignore[arg-type]  # no range is among them
                if not self._socket.unsent_bytes:
                    self._loop.soon(self.sent)
        except OSError:
            self._break()
            return
        if reads:
            for data in self._received:
                self._channel.feed(data)
            self._received.clear()
            self._received_bytes = 0
            self._read()
            if not (self._paused or self._working or self._over):
                self._socket.resume()

    def _begin_job(self, sends: bool, reads: bool) -> None:
        parts = self._take_parts() if sends else []
        received: list[Buffer] = []
        size = 0
        while reads and self._received and size < JOB_BYTES_MAX:
            received.append(self._received.popleft())
            size += len(received[-1])
        self._received_bytes -= size
        self._working = True
        if not self._paused and self._received_bytes < RECEIVED_BYTES_MAX:
            self._socket.resume()  # the next bytes may come meanwhile
        self._workers.run(_work, (self._channel, received, parts), self._end_job)

    def _take_parts(self) -> list[Buffer | HeldRange]:
        """Take the next parts for a job; cut the last one."""
        taken: list[Buffer | HeldRange] = []
        room = JOB_BYTES_MAX
        while self._parts and room:
            first = self._parts.popleft()
            if isinstance(first, FileRange):
                size = min(first.size, room)
                taken.append(_held(first, size))
                if size < first.size:
                    self._parts.appendleft(first.after(size))
            else:
                size = min(len(first), room)
                view = memoryview(first)
                taken.append(view[:size])
                if size < len(view):
                    self._parts.appendleft(view[size:])
            room -= size
        self._job_bytes = JOB_BYTES_MAX - room
        self._parts_bytes -= self._job_bytes
        return taken

    def _end_job(self, work: TlsWork | None, failure: BaseException | None) -> None:
        self._working = False
        sent = self._job_bytes > 0
        self._job_bytes = 0
        if self._over:
            return
        if failure is not None or work is None:
            self._break()
            return
        if work.encrypted:
            self._socket.send((work.encrypted,))
        if work.plain:
            self._plain = work.plain
        self._go_on()
        if sent and not self._over and not self.unsent_bytes and self._receiver is not None:
            self._receiver.sent()

    # -- ending

    def finish(self) -> None:
        self._announce_end()
        self._socket.finish()

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._announce_end()
        if self._lost:
            self._loop.soon(self._end)
        else:
            self._socket.close()

    def _announce_end(self) -> None:
        if not self._working and not self._parts:
            self._channel.end()
            self._socket.send((self._channel.take(),))

    def _break(self) -> None:
        """Close a connection whose bytes are no TLS, or whose file failed."""
        self._over = True
        if not self._working:
            alert = self._channel.take()
            if alert:
                self._socket.send((alert,))
        self._socket.close()

    def closed(self) -> None:
        self._lost = True
        self._parts.clear()
        self._parts_bytes = 0
        waits = self._working or self._received or self._plain or self._going_on
        if self._over or not (waits or (self._paused and self._channel.has_input)):
            self._end()

    def _end(self) -> None:
        self._over = True
        self._parts.clear()
        self._parts_bytes = 0
        self._received.clear()
        self._received_bytes = 0
        self._plain = memoryview(b"")
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.closed()


def _held(piece: FileRange, size: int) -> Buffer | HeldRange:
    """Return the first bytes of a range for a worker."""
    file = piece.file
    if not isinstance(file, RealFile):  # an in-memory disk under real sockets
        return file.read_now(piece.position, size)
    held = piece.held
    if not isinstance(held, Descriptor):
        held = Descriptor(os.dup(file.fileno()))
    return HeldRange(file.path, held, piece.position, size)
