"""Handshakes of TLS: in workers of their own, with limits on time, bytes and number.

A handshake holds a worker only while there are bytes to work on. A peer that completes none costs
a socket and some memory, until its deadline or until newer handshakes need the room: beyond a limit
the oldest one is closed, of the node or of the same address.
"""

import os
import ssl
from collections import deque
from collections.abc import Callable

from penstock.real.loop import Loop
from penstock.real.sockets import SocketPeer, TurnBuffer
from penstock.real.tls import TlsPeer
from penstock.real.tls_channel import TlsChannel
from penstock.real.tls_contexts import tls_reason
from penstock.real.workers import Pool
from penstock.world import Receiver, TlsFailed

HANDSHAKE_MS_MAX = 10_000.0
HANDSHAKE_BYTES_MAX = 64 * 1024
HANDSHAKES_MAX = 2_048
HANDSHAKES_PER_ADDRESS_MAX = 512
JOBS_WAITING_MAX = 64  # then no further connection is accepted for a moment
HANDSHAKE_RECORD = 0x16
_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


class TlsHandshake:
    """A connection until its handshake is done (world.Receiver)."""

    def __init__(
        self,
        handshakes: "Handshakes",
        socket: SocketPeer,
        make: Callable[[], TlsChannel],
        opened: Callable[[TlsPeer], Receiver],
        failed: Callable[[str], None],
    ) -> None:
        self.host = socket.address[0]
        self.room: memoryview | None = None
        self._handshakes = handshakes
        self._socket = socket
        self._make = make
        self._opened = opened
        self._failed = failed
        self._channel: TlsChannel | None = None
        self._received: deque[bytes] = deque()
        self._received_bytes = 0
        self._working = False
        self._lost = False  # the socket is closed; its last bytes may tell why
        self._over = False

    def begin(self, until_ms: float, *, is_client: bool) -> None:
        """Begin; a server waits for the bytes of its client."""
        loop = self._handshakes.loop
        self._timer = loop.at(until_ms, lambda: self.fail("the TLS handshake took too long"))
        self._socket.attach(self)
        if is_client:
            self._work()

    def received(self, data: memoryview) -> None:
        if self._over:
            return
        if not self._received_bytes and self._channel is None and not self._working:
            stranger = _stranger(bytes(data[:4]))
            if stranger:
                self.fail(stranger)
                return
        self._received.append(bytes(data))
        self._received_bytes += len(data)
        if self._received_bytes > HANDSHAKE_BYTES_MAX:
            self.fail(f"the TLS handshake took more than {HANDSHAKE_BYTES_MAX // 1024} KiB")
            return
        if not self._working:
            self._work()

    def filled(self, size: int) -> None:
        raise AssertionError(f"no room was given for these {size} bytes")

    def sent(self) -> None:
        """Ignore this: a handshake sends what it has."""

    def _work(self) -> None:
        received, self._received = b"".join(self._received), deque()
        self._working = True
        self._handshakes.pool.run(self._shake_hands, (received,), self._go_on)

    def _shake_hands(self, received: bytes) -> bool:
        """Go on with the handshake, in a worker."""
        if self._channel is None:
            self._channel = self._make()
        return self._channel.shake_hands(received)

    def _go_on(self, done: bool, failure: BaseException | None) -> None:
        self._working = False
        if self._over:
            return
        if self._channel is not None:
            answer = self._channel.take()
            if answer:
                self._socket.send((answer,))
        if failure is not None:
            self.fail(_reason(failure))
        elif done:
            self._finish()
        elif self._received:
            self._work()
        elif self._lost:
            self._give_up()

    def _finish(self) -> None:
        """Give the connection to its receiver."""
        assert self._channel is not None, "a handshake that is done has a channel"
        self._end()
        handshakes = self._handshakes
        peer = TlsPeer(
            handshakes.loop, self._socket, self._channel, handshakes.buffer, handshakes.workers
        )
        self._socket.hand_over(peer)
        for data in self._received:
            self._channel.feed(data)
        peer.attach(self._opened(peer))

    def fail(self, reason: str) -> None:
        """Give up and close the connection."""
        if not self._over:
            self._end()
            self._socket.close()
            self._failed(reason)

    def cancel(self) -> None:
        """Close the connection without a callback."""
        if not self._over:
            self._end()
            self._socket.close()

    def closed(self) -> None:
        self._lost = True
        if not self._over and not self._working:
            self._give_up()

    def _give_up(self) -> None:
        """End the handshake of a closed connection."""
        self._end()
        if self._received_bytes or self._channel is not None:
            self._failed("it closed the connection during the TLS handshake")

    def _end(self) -> None:
        self._over = True
        self._timer.cancel()
        self._handshakes.forget(self)


class Handshakes:
    """All handshakes of a node, and the threads of TLS."""

    def __init__(self, loop: Loop, buffer: TurnBuffer) -> None:
        self.loop = loop
        self.buffer = buffer
        threads = max(1, (os.cpu_count() or 1) // 2)
        self.pool = Pool(loop, threads)  # of handshakes
        self.workers = Pool(loop, max(2, threads))  # of everything after them
        self._in_progress: dict[TlsHandshake, None] = {}  # oldest first
        self._per_host: dict[str, dict[TlsHandshake, None]] = {}

    @property
    def is_busy(self) -> bool:
        """Return whether handshakes wait for a thread."""
        return self.pool.tasks >= JOBS_WAITING_MAX

    def accept(
        self,
        socket: SocketPeer,
        context: ssl.SSLContext,
        opened: Callable[[TlsPeer], Receiver],
        failed: Callable[[str], None],
    ) -> None:
        """Begin a handshake with a client. Beyond the limits the oldest one ends."""
        made = TlsHandshake(self, socket, lambda: TlsChannel(context), opened, failed)
        of_host = self._per_host.setdefault(made.host, {})
        if len(of_host) >= HANDSHAKES_PER_ADDRESS_MAX:
            limit = f"{HANDSHAKES_PER_ADDRESS_MAX} newer TLS handshakes are under way from there"
            next(iter(of_host)).fail(limit)
        elif len(self._in_progress) >= HANDSHAKES_MAX:
            limit = f"{HANDSHAKES_MAX} newer TLS handshakes are under way"
            next(iter(self._in_progress)).fail(limit)
        self._in_progress[made] = None
        self._per_host.setdefault(made.host, of_host)[made] = None
        made.begin(self.loop.mono_ms() + HANDSHAKE_MS_MAX, is_client=False)

    def connect(
        self,
        socket: SocketPeer,
        make: Callable[[], TlsChannel],
        until_ms: float,
        opened: Callable[[TlsPeer], Receiver],
        failed: Callable[[str], None],
    ) -> TlsHandshake:
        """Begin a handshake with a server. `make` runs in a worker."""
        made = TlsHandshake(self, socket, make, opened, failed)
        made.begin(until_ms, is_client=True)
        return made

    def forget(self, handshake: TlsHandshake) -> None:
        if handshake in self._in_progress:
            del self._in_progress[handshake]
            of_host = self._per_host[handshake.host]
            del of_host[handshake]
            if not of_host:
                del self._per_host[handshake.host]

    def close(self) -> None:
        self.pool.close()
        self.workers.close()


def _stranger(beginning: bytes) -> str:
    """Return what a peer speaks instead of TLS; '' for TLS."""
    if beginning[0] == HANDSHAKE_RECORD:
        return ""
    if beginning in _HTTP:
        return "it speaks HTTP without TLS"
    if not beginning[0]:
        return "it speaks Kafka's protocol without TLS"
    return "it sent bytes that begin no TLS handshake"


def _reason(failure: BaseException) -> str:
    match failure:
        case ssl.SSLError():
            return f"the TLS handshake failed: {tls_reason(failure)}"
        case TlsFailed():
            return f"the TLS handshake failed: {failure}"
        case OSError() | ValueError():
            # A host that is no name, for example.
            return f"the TLS handshake failed: {failure}"
        case _:
            raise failure
