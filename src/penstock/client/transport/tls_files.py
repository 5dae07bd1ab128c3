"""The stores of a client: their files, read when a connection needs them."""

import ssl

from penstock.credentials import stores
from penstock.credentials.stores import STORE_BYTES_MAX, BadStore, TlsIdentity, TlsStore
from penstock.credentials.tls import Tls
from penstock.tls_context import client_context
from penstock.world import TlsFailed


def trusted_certificates(store: TlsStore) -> str:
    """Return the certificates of a trust store, as PEM. Raise BadStore."""
    return stores.trusted_certificates(store, _content(store))


def identity(store: TlsStore) -> TlsIdentity:
    """Return the key of a key store and its certificates, the key's own first. Raise BadStore."""
    return stores.identity(store, _content(store))


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Read the stores and return the context. Raise ValueError with the unusable store."""
    settings = tls.settings(
        None if tls.truststore is None else trusted_certificates(tls.truststore),
        None if tls.keystore is None else identity(tls.keystore),
    )
    try:
        return client_context(settings)
    except TlsFailed as problem:
        raise BadStore(str(problem)) from problem


def _content(store: TlsStore) -> bytes | None:
    if store.location is None:
        return None
    try:
        with open(store.location, "rb") as file:
            return file.read(STORE_BYTES_MAX)
    except OSError as problem:
        raise store.unreadable(problem) from problem
