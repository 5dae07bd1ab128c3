"""Key stores and trust stores as PEM, the format of Python's TLS.

The first bytes of a file decide its format, not its configured type: Java too reads PKCS12 where
the configuration says JKS. PKCS12 needs the package `cryptography`. A JKS file has to be converted
once; the error says how.
"""

import secrets
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

PEM_BEGINNING = b"-----BEGIN"
DER_SEQUENCE = 0x30
JAVA_MAGICS = (bytes.fromhex("feedfeed"), bytes.fromhex("cececece"))  # JKS, JCEKS
STORE_BYTES_MAX = 16 * 1024 * 1024
KNOWN_TYPES = frozenset({"", "JKS", "PKCS12", "PEM"})


class BadStore(ValueError):
    """A store cannot be used; the text gives the cause and the next step."""


@dataclass(frozen=True, slots=True)
class TlsStore:
    """A store as configured: a file, or PEM text in the configuration itself.

    `role` is `truststore` or `keystore`, as in the configuration keys.
    """

    role: str
    location: str | None = None
    type: str = ""
    password: str | None = field(default=None, repr=False)
    certificates: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.type.upper() not in KNOWN_TYPES:
            raise BadStore(f"ssl.{self.role}.type={self.type} is not offered; use PKCS12 or PEM")


class TlsIdentity(NamedTuple):
    """Certificate chain and private key in one PEM text, and the password of the key."""

    pem: str
    password: str | None


def trusted_certificates(store: TlsStore) -> str:
    """Return the certificates of a trust store, as PEM."""
    if store.location is None:
        assert store.certificates is not None, "a store has a file or its certificates"
        return store.certificates
    data = _read(store)
    if PEM_BEGINNING in data:
        return data.decode("ascii", errors="replace")
    loaded = _pkcs12(store, data)
    found = [each.certificate for each in (loaded.cert, *loaded.additional_certs) if each]
    if not found:
        raise BadStore(f"ssl.truststore.location={store.location} holds no certificate")
    return "".join(_pem(each) for each in found)


def identity(store: TlsStore) -> TlsIdentity:
    """Return the key of a key store and its certificates, the key's own first."""
    if store.location is None:
        assert store.certificates is not None and store.key is not None, "both or neither"
        return TlsIdentity(f"{store.key}\n{store.certificates}\n", store.key_password)
    data = _read(store)
    if PEM_BEGINNING in data:
        return TlsIdentity(data.decode("ascii", errors="replace"), store.key_password)
    loaded = _pkcs12(store, data)
    if loaded.key is None or loaded.cert is None:
        raise BadStore(f"ssl.keystore.location={store.location} holds no private key")
    chain = _chain(loaded.cert.certificate, [each.certificate for each in loaded.additional_certs])
    serialization = import_module("cryptography.hazmat.primitives.serialization")
    password = secrets.token_urlsafe()
    key: bytes = loaded.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    return TlsIdentity(key.decode() + "".join(_pem(each) for each in chain), password)


def _read(store: TlsStore) -> bytes:
    assert store.location is not None, "asked for stores in files only"
    try:
        with open(store.location, "rb") as file:
            data = file.read(STORE_BYTES_MAX)
    except OSError as problem:
        raise BadStore(
            f"ssl.{store.role}.location={store.location} cannot be read: {problem.strerror}"
        ) from problem
    if data.startswith(JAVA_MAGICS):
        raise BadStore(
            f"ssl.{store.role}.location={store.location} is a JKS store, which only Java reads. "
            f"Convert it once: keytool -importkeystore -srckeystore {store.location} "
            f"-destkeystore {store.role}.p12 -deststoretype pkcs12, and set "
            f"ssl.{store.role}.location to the new file, ssl.{store.role}.type=PKCS12"
        )
    if PEM_BEGINNING not in data and data[:1] != bytes([DER_SEQUENCE]):
        raise BadStore(f"ssl.{store.role}.location={store.location} is neither PKCS12 nor PEM")
    return data


def _pkcs12(store: TlsStore, data: bytes) -> Any:
    """Return the file as `cryptography` loads it."""
    try:
        pkcs12 = import_module("cryptography.hazmat.primitives.serialization.pkcs12")
    except ImportError:
        raise BadStore(
            f"ssl.{store.role}.location={store.location} is a PKCS12 store; reading it needs the "
            "package `cryptography` (pip install cryptography). A PEM store needs none"
        ) from None
    password = None if store.password is None else store.password.encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except ValueError as problem:
        raise BadStore(
            f"ssl.{store.role}.location={store.location} cannot be opened; is "
            f"ssl.{store.role}.password right? ({problem})"
        ) from problem


def _chain(leaf: Any, others: list[Any]) -> list[Any]:
    """Return the leaf and its signers, in order, without unrelated certificates."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        signer = next((each for each in others if each.subject == chain[-1].issuer), None)
        if signer is None or signer in chain:
            break
        chain.append(signer)
    return chain


def _pem(certificate: Any) -> str:
    serialization = import_module("cryptography.hazmat.primitives.serialization")
    text: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return text.decode()
