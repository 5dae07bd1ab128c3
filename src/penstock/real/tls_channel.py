"""One TLS object and its two memories. One thread at a time may call a channel.

OpenSSL never touches a socket, so its work can be done off the loop. Bytes go in and out in pieces,
because a memory keeps the size that it once had.
"""

import errno
import os
import ssl
from collections.abc import Sequence
from typing import NamedTuple

from penstock.real.descriptors import Descriptor
from penstock.world import Buffer

PIECE_BYTES = 32 * 1024
UNLIMITED = 1 << 62
PLAIN_BYTES_MAX = 256 * 1024  # of one `read_all`


class HeldRange(NamedTuple):
    """A range of an open file, which any thread may read."""

    path: str
    descriptor: Descriptor
    position: int
    size: int

    def read(self) -> bytes:
        data = os.pread(self.descriptor.fd, self.size, self.position)
        if len(data) < self.size:
            # The header has promised more: the peer could not parse the rest.
            raise OSError(errno.EIO, f"{self.path} came up short")
        return data


class TlsChannel:
    """Encrypts and decrypts the bytes of one connection."""

    __slots__ = ("_incoming", "_outgoing", "_tls", "ended", "records")

    def __init__(self, context: ssl.SSLContext, host: str | None = None) -> None:
        """Begin; a client names the host that it connects to, a server none."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self.ended = False  # the other side has announced its end
        self.records = 0  # read by the last `read_into`, or parts of them

    def shake_hands(self, data: bytes) -> bool:
        """Go on with the handshake; return whether it is done. Raise ssl.SSLError."""
        self._incoming.write(data)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def certificate(self) -> bytes | None:
        """Return the certificate (DER) that the other side has shown."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def has_input(self) -> bool:
        """Return whether bytes are in memory that were not read; they may be a part of a record."""
        return bool(self._incoming.pending or self._tls.pending())

    def feed(self, data: Buffer) -> None:
        """Take bytes of the other side."""
        self._incoming.write(data)

    def read_into(self, target: memoryview, records_max: int = UNLIMITED) -> int:
        """Decrypt into a buffer until it is full or a record is incomplete; return the number of
        bytes. Raise ssl.SSLError for bytes that no TLS peer sends."""
        filled, size, records = 0, len(target), 0
        read, incoming, pending = self._tls.read, self._incoming, self._tls.pending
        try:
            while filled < size and records < records_max and (incoming.pending or pending()):
                # With a buffer, read returns the number of bytes.
                count: int = read(size - filled, target[filled:])  # type: ignore[assignment]
                if not count:
                    self.ended = True
                    break
                filled += count
                records += 1
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        self.records = records
        return filled

    def read_all(self, received: Sequence[Buffer]) -> memoryview:
        """Take bytes of the other side, and return what they decrypt to, in memory of its own. At
        most PLAIN_BYTES_MAX are given; as many may be left in the channel."""
        size = sum(map(len, received)) + self._incoming.pending + self._tls.pending()
        target = memoryview(bytearray(min(PLAIN_BYTES_MAX, size)))
        filled = self.read_into(target)
        for data in received:
            view = memoryview(data)
            for at in range(0, len(view), PIECE_BYTES):
                self._incoming.write(view[at : at + PIECE_BYTES])
                filled += self.read_into(target[filled:])
        return target[:filled]

    def write(self, data: Buffer) -> bytes:
        """Encrypt; return the bytes for the other side."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        return self._outgoing.read()

    def write_all(self, parts: Sequence["Buffer | HeldRange"]) -> bytes:
        """Encrypt buffers, joined, and ranges of files, which are read now. Raise OSError if a file
        is shorter than its range."""
        plain = [each.read() if isinstance(each, HeldRange) else each for each in parts]
        view = memoryview(b"".join(plain))
        return b"".join(
            self.write(view[at : at + PIECE_BYTES]) for at in range(0, len(view), PIECE_BYTES)
        )

    def end(self) -> None:
        """Announce the end; the announcement is for `take`."""
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the other side has not announced its own end, or the handshake is not done

    def take(self) -> bytes:
        """Return bytes that OpenSSL has for the other side: of a handshake, an alert, new keys."""
        return self._outgoing.read() if self._outgoing.pending else b""
