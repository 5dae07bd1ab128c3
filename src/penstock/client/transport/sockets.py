"""Bytes over one TCP connection, plain or TLS, with a limit on every wait.

Parts are sent without being joined (sendmsg), and received into one buffer of the announced size.
TLS has no such call: parts are sent one after the other, small ones joined.
"""

import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from penstock.wire.primitives import Buffer

PARTS_MAX = 512  # of one call; the system's limit is 1,024
JOINED_BYTES_MAX = 16 * 1024  # one TLS record


class NotSecure(Exception):
    """The TLS handshake failed: one side rejects the other."""

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.what = what
        self.next_step = next_step


class TransportSocket:
    """An open socket."""

    __slots__ = ("_plain", "_socket")

    def __init__(
        self, host: str, port: int, timeout_ms: int, context: ssl.SSLContext | None
    ) -> None:
        opened = socket.create_connection((host, port), timeout_ms / 1000)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._plain = context is None
            self._socket = opened if context is None else _secured(opened, host, context)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def wait_at_most(self, timeout_ms: int) -> None:
        """Limit every wait from now on."""
        self._socket.settimeout(timeout_ms / 1000)

    def wake(self) -> None:
        """End a wait of another thread, which sees a closed connection."""
        with suppress(OSError):
            # Not by TLS: its shutdown would wait for the peer.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @property
    def secured(self) -> bool:
        return not self._plain

    @property
    def closed(self) -> bool:
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def has_buffered(self) -> bool:
        """Return whether bytes are buffered that no poll will report."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def send(self, parts: Sequence[Buffer]) -> None:
        if not self._plain:
            try:
                self._send_secured(parts)
            except OSError:
                self._socket.recv(1)  # an alert with the reason may have come before
                raise
        elif len(parts) == 1:
            self._socket.sendall(parts[0])
        else:
            self._send_parts([memoryview(part) for part in parts if len(part)])

    def _send_parts(self, views: list[memoryview]) -> None:
        first = 0
        while first < len(views):
            sent = self._socket.sendmsg(views[first : first + PARTS_MAX])
            while first < len(views) and sent >= len(views[first]):
                sent -= len(views[first])
                first += 1
            if sent:
                views[first] = views[first][sent:]

    def _send_secured(self, parts: Sequence[Buffer]) -> None:
        small = bytearray()
        for part in parts:
            if len(small) + len(part) > JOINED_BYTES_MAX:
                if small:
                    self._socket.sendall(small)
                    small = bytearray()
                if len(part) > JOINED_BYTES_MAX:
                    self._socket.sendall(part)
                    continue
            small += part
        if small:
            self._socket.sendall(small)

    def receive(self, size: int) -> memoryview:
        """Receive exactly `size` bytes into a new buffer."""
        whole = memoryview(bytearray(size))
        rest = whole
        while rest:
            count = self._socket.recv_into(rest)
            if count == 0:
                raise OSError("it closed the connection")
            rest = rest[count:]
        return whole


def wait_for_any(links: Sequence[TransportSocket], timeout_ms: float) -> list[TransportSocket]:
    """Return the sockets that are readable or have failed; none at the timeout."""
    ready = [link for link in links if link.closed or link.has_buffered]
    if ready or not links:
        return ready
    poll = select.poll()
    by_number = {link.fileno(): link for link in links}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(max(0.0, timeout_ms))]


def reason(problem: Exception) -> str:
    """Return the cause in a few words."""
    match problem:
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return "no answer in time"
        case socket.gaierror():
            return "no such host"
        case ssl.SSLError():
            return f"TLS failed ({problem.reason or problem})"
        case OSError(strerror=str(text)):
            return text.lower()
        case _:
            return str(problem)


def refuses_us(problem: Exception) -> bool:
    """Return whether the server rejects our certificate: in TLS 1.3 that comes after the handshake,
    in place of a response."""
    return isinstance(problem, ssl.SSLError) and "ALERT" in (problem.reason or "")


def _secured(opened: socket.socket, host: str, context: ssl.SSLContext) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(opened, server_hostname=host)
    except ssl.SSLCertVerificationError as problem:
        raise NotSecure(
            f"its certificate is not accepted: {problem.verify_message}",
            "ssl.truststore.location names who is trusted; an empty "
            "ssl.endpoint.identification.algorithm leaves the host name unchecked",
        ) from problem
    except ssl.SSLEOFError as problem:
        # The server may be shutting down or not speak TLS: another attempt will tell.
        raise OSError(
            "it closed the connection during the TLS handshake; is security.protocol right for "
            "this port?"
        ) from problem
    except ssl.SSLError as problem:
        raise NotSecure(
            f"TLS failed ({problem.reason or problem}); is security.protocol right for this port?",
            "Set security.protocol to PLAINTEXT (or SASL_PLAINTEXT), or use the port of a listener "
            "with TLS",
        ) from problem
