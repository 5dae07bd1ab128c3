"""Attempts to connect: names are resolved off the loop, their addresses tried one after another.

One deadline bounds the whole attempt. Each failure has a reason in words for an operator.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from penstock.real.loop import WRITABLE, Loop
from penstock.real.workers import Pool

CONNECT_MS_MAX = 10_000.0
NAME_THREADS_MAX = 2

SocketAddress = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]


class Outbound:
    """One attempt (world.Connecting). All calls happen on the loop."""

    def __init__(
        self,
        loop: Loop,
        address: tuple[str, int],
        connected: Callable[[socket.socket], None],
        failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._address = address
        self._connected = connected
        self._failed = failed
        self._addresses: deque[SocketAddress] = deque()
        self._socket: socket.socket | None = None
        self._reason = f"{address[0]} has no address"
        self._over = False

    def start(self, names: Pool, timeout_ms: float) -> None:
        """Begin. `names` runs the look-up of a name."""
        self._timer = self._loop.at(
            self._loop.mono_ms() + timeout_ms,
            lambda: self._fail(f"no connection within {timeout_ms:.0f} ms"),
        )
        numeric = _numeric(*self._address)
        if numeric is not None:
            self._loop.soon(lambda: self._try_all([numeric]))
        else:
            names.run(_addresses_of, self._address, self._resolved)

    def cancel(self) -> None:
        self._over = True
        self._timer.cancel()
        self._drop_socket()

    def _resolved(self, found: list[SocketAddress], failure: BaseException | None) -> None:
        if isinstance(failure, OSError | UnicodeError):
            self._fail(f"the name {self._address[0]} has no address: {_text(failure)}")
        elif failure is not None:
            raise failure
        else:
            self._try_all(found)

    def _try_all(self, addresses: Sequence[SocketAddress]) -> None:
        self._addresses.extend(addresses)
        self._try_next()

    def _try_next(self) -> None:
        while self._addresses and not self._over:
            family, address = self._addresses.popleft()
            try:
                sock = self._socket = socket.socket(family, socket.SOCK_STREAM)
                sock.setblocking(False)
                code = sock.connect_ex(address)
            except OSError as failure:
                code = failure.errno or errno.EIO
            if code in (0, errno.EINPROGRESS):
                self._loop.watch(sock.fileno(), WRITABLE, self._ready)
                return
            self._note(code)
        self._fail(self._reason)

    def _ready(self, _mask: int) -> None:
        sock = self._socket
        assert sock is not None, "a watched attempt has a socket"
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._note(code)
            self._try_next()
            return
        self._loop.unwatch(sock.fileno())
        self._socket = None
        self.cancel()
        self._connected(sock)

    def _note(self, code: int) -> None:
        """Keep the reason of a failed address, and close its socket."""
        self._drop_socket()
        if code == errno.ECONNREFUSED:
            self._reason = "nothing listens there"
        else:
            self._reason = os.strerror(code)

    def _drop_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is not None:
            self._loop.unwatch(sock.fileno())
            sock.close()

    def _fail(self, reason: str) -> None:
        if not self._over:
            self.cancel()
            self._failed(reason)


def _numeric(host: str, port: int) -> SocketAddress | None:
    """Return the address of a host that is no name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, UnicodeError):
            socket.inet_pton(family, host)
            return family, (host, port)
    return None


def _addresses_of(host: str, port: int) -> list[SocketAddress]:
    """Look up a name. Waits for the network."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _type, _protocol, _name, address in found]  # type: ignore[misc]


def _text(failure: BaseException) -> str:
    return failure.strerror or str(failure) if isinstance(failure, OSError) else str(failure)
