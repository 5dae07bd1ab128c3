"""OpenSSL contexts from TLS settings, for clients and nodes.

TLS 1.2 and 1.3 without renegotiation, compression and resumption: a resumed client would escape a
new trust store.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.world import TlsFailed, TlsSettings

CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context for connections to servers. Raise TlsFailed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_host
    _configure(context, settings, ssl.Purpose.SERVER_AUTH)
    return context


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return a context for a listener. Raise TlsFailed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    _configure(context, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def _configure(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    context.minimum_version, context.maximum_version = map(_VERSIONS.__getitem__, settings.versions)
    if settings.ciphers:
        try:
            context.set_ciphers(settings.ciphers)
        except ssl.SSLError as problem:
            raise TlsFailed(
                f"ssl.cipher.suites: OpenSSL knows none of {settings.ciphers.split(':')}"
            ) from problem
    if settings.trusted is None:
        context.load_default_certs(purpose)
    else:
        # Each certificate of a trust store is an end of a chain, as for Java.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=settings.trusted)
        except (ssl.SSLError, ValueError) as problem:
            raise TlsFailed(
                f"the certificates of ssl.truststore cannot be read: {problem}"
            ) from problem
    if settings.identity:
        _load_identity(context, settings)


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    with _private_file(settings.identity.encode()) as path:
        try:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=settings.key_password or "")
        except (ssl.SSLError, OSError, ValueError) as problem:
            raise TlsFailed(
                "the key of ssl.keystore cannot be used; is ssl.key.password right, and does the "
                f"certificate belong to the key? ({problem})"
            ) from problem


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with the content: OpenSSL takes a key from no other source. The
    file is in memory, or else one of this user alone that is deleted at once."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        fd = os.memfd_create("penstock-identity")
        try:
            os.write(fd, content)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
        return
    from tempfile import TemporaryDirectory  # most processes need none

    with TemporaryDirectory(prefix="penstock-") as directory:
        path = os.path.join(directory, "identity.pem")
        with open(path, "wb", opener=_private) as file:
            file.write(content)
        yield path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
