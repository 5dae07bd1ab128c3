"""Key stores and trust stores as PEM, the format of Python's TLS.

The bytes of a store decide its format, not its configured type: Java too reads PKCS12 where the
configuration says JKS. Callers read the files; nothing here opens one.
"""

import base64
import re
import secrets
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from penstock.credentials.jks import JKS_MAGIC, JksBroken, JksContent, read_jks, unmask_key

PEM_BEGINNING = b"-----BEGIN"
DER_SEQUENCE = 0x30
JCEKS_MAGIC = bytes.fromhex("cececece")
STORE_BYTES_MAX = 16 * 1024 * 1024
KNOWN_TYPES = frozenset({"", "JKS", "PKCS12", "PEM"})
PEM_LINE = 64

_CERTIFICATE = re.compile(
    r"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL
)
_KEY = re.compile(r"-----BEGIN ((?:[A-Z]+ )*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


class BadStore(ValueError):
    """A store cannot be used; the text gives the cause and the next step."""


@dataclass(frozen=True, slots=True)
class TlsStore:
    """A store as configured: a file, or PEM text in the configuration itself.

    `role` is `truststore` or `keystore`, as in the configuration keys. `prefix` comes before the
    keys of one listener.
    """

    role: str
    location: str | None = None
    type: str = ""
    password: str | None = field(default=None, repr=False)
    certificates: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.type.upper() not in KNOWN_TYPES:
            raise BadStore(
                f"{self.prefix}ssl.{self.role}.type={self.type} is not offered; use PKCS12 or PEM"
            )

    @property
    def name(self) -> str:
        """Return the key that gives the store, with its value if that is a file."""
        if self.location is not None:
            return f"{self.prefix}ssl.{self.role}.location={self.location}"
        inline = "certificates" if self.role == "truststore" else "key"
        return f"{self.prefix}ssl.{self.role}.{inline}"

    def unreadable(self, problem: OSError) -> BadStore:
        """Return the error of a file that the caller could not read."""
        return BadStore(
            f"{self.name} cannot be read: {problem.strerror or problem}. See: ls -l {self.location}"
        )


class TlsIdentity(NamedTuple):
    """Private key and certificate chain in one PEM text, and the password of the key."""

    pem: str
    password: str | None

    def __repr__(self) -> str:
        return "TlsIdentity(...)"


class PemIdentity(NamedTuple):
    """A private key and its certificates, apart."""

    certificates: tuple[str, ...]
    key: str

    def __repr__(self) -> str:
        return f"PemIdentity({len(self.certificates)} certificates)"


def trusted_certificates(store: TlsStore, data: bytes | None) -> str:
    """Return the certificates of a trust store, as PEM. `data` is the content of its file, None
    for a store without a file."""
    if data is None:
        assert store.certificates is not None, "a store has a file or its certificates"
        return store.certificates
    if is_pem(data):
        return data.decode("ascii", errors="replace")
    if data.startswith(JKS_MAGIC):
        content = _jks(store, data)
        found = [*content.trusted, *(each for key in content.keys for each in key.chain)]
        texts = [certificate_pem(each) for each in found]
    else:
        loaded = _pkcs12(store, data)
        certificates = [
            each.certificate for each in (loaded.cert, *loaded.additional_certs) if each
        ]
        texts = [_pem(each) for each in certificates]
    if not texts:
        raise BadStore(f"{store.name} holds no certificate. See: {_listing(store)}")
    return "".join(texts)


def identity(store: TlsStore, data: bytes | None, *, in_clear: bool = False) -> TlsIdentity:
    """Return the key of a key store and its certificates, the key's own first. `data` is the
    content of its file, None for a store without a file. A key out of PKCS12 gets a random
    password, because settings of clients are printed, unless it is wanted `in_clear`."""
    if data is None:
        assert store.certificates is not None and store.key is not None, "both or neither"
        return TlsIdentity(f"{store.key}\n{store.certificates}\n", store.key_password)
    if is_pem(data):
        return TlsIdentity(data.decode("ascii", errors="replace"), store.key_password)
    if data.startswith(JKS_MAGIC):
        return _jks_identity(store, data)
    return _pkcs12_identity(store, data, in_clear)


def split_identity(store: TlsStore, pem: str) -> PemIdentity:
    """Return key and certificates of a PEM text. Raise BadStore if one is missing."""
    certificates = tuple(each.group(0) for each in _CERTIFICATE.finditer(pem))
    key = _KEY.search(pem)
    if not certificates or key is None:
        missing = "certificate" if not certificates else "private key"
        raise BadStore(f"{store.name} holds no {missing} in PEM")
    return PemIdentity(certificates, key.group(0))


def certificates_in(pem: str) -> list[bytes]:
    """Return the certificates of a PEM text in DER; leave out what is no base64."""
    found: list[bytes] = []
    for match in _CERTIFICATE.finditer(pem):
        try:
            found.append(base64.b64decode("".join(match.group(2).split()), validate=True))
        except ValueError:
            continue
    return found


def certificate_pem(der: bytes) -> str:
    return pem_text("CERTIFICATE", der)


def pem_text(label: str, der: bytes) -> str:
    """Return DER bytes as PEM under a label."""
    text = base64.b64encode(der).decode()
    lines = [text[at : at + PEM_LINE] for at in range(0, len(text), PEM_LINE)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


def is_pem(data: bytes) -> bool:
    return PEM_BEGINNING in data


def _jks_identity(store: TlsStore, data: bytes) -> TlsIdentity:
    content = _jks(store, data)
    if not content.keys:
        raise BadStore(f"{store.name} holds no private key. See: {_listing(store)}")
    password = store.password if store.key_password is None else store.key_password
    try:
        key = unmask_key(content.keys[0], password or "")
    except JksBroken as problem:
        raise BadStore(
            f"{store.name} holds a key that cannot be opened; is {store.prefix}ssl.key.password "
            f"right? ({problem}) See: {_listing(store)}"
        ) from problem
    chain = "".join(certificate_pem(each) for each in content.keys[0].chain)
    return TlsIdentity(pem_text("PRIVATE KEY", key) + chain, None)


def _jks(store: TlsStore, data: bytes) -> JksContent:
    try:
        return read_jks(data, store.password)
    except JksBroken as problem:
        raise _unopened(store, problem) from problem


def _pkcs12_identity(store: TlsStore, data: bytes, in_clear: bool) -> TlsIdentity:
    loaded = _pkcs12(store, data)
    if loaded.key is None or loaded.cert is None:
        raise BadStore(f"{store.name} holds no private key. See: {_listing(store)}")
    chain = _chain(loaded.cert.certificate, [each.certificate for each in loaded.additional_certs])
    serialization = import_module("cryptography.hazmat.primitives.serialization")
    password = None if in_clear else secrets.token_urlsafe()
    key: bytes = loaded.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password.encode()),
    )
    return TlsIdentity(key.decode() + "".join(_pem(each) for each in chain), password)


def _pkcs12(store: TlsStore, data: bytes) -> Any:
    """Return the file as `cryptography` loads it."""
    if data.startswith(JCEKS_MAGIC):
        raise BadStore(
            f"{store.name} is a JCEKS store, which only Java reads. Convert it once: "
            f"keytool -importkeystore -srcstoretype jceks -srckeystore {store.location} "
            f"-destkeystore {store.role}.p12 -deststoretype pkcs12, and set "
            f"{store.prefix}ssl.{store.role}.location to the new file"
        )
    if data[:1] != bytes([DER_SEQUENCE]):
        raise BadStore(
            f"{store.name} is neither PEM nor PKCS12 nor JKS. See: file {store.location}"
        )
    pkcs12 = import_module("cryptography.hazmat.primitives.serialization.pkcs12")
    password = None if store.password is None else store.password.encode()
    try:
        return pkcs12.load_pkcs12(data, password)
    except ValueError as problem:
        raise _unopened(store, problem) from problem


def _unopened(store: TlsStore, problem: ValueError) -> BadStore:
    return BadStore(
        f"{store.name} cannot be opened; is {store.prefix}ssl.{store.role}.password right? "
        f"({problem}) See: {_listing(store)}"
    )


def _listing(store: TlsStore) -> str:
    """Return the command that shows a store."""
    return f"keytool -list -keystore {store.location}"


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
