"""Java's own key stores (JKS): certificates in clear, keys under a password.

A store ends with a digest over the password and its content. A key is masked by a chain of SHA-1
digests of the password, and followed by a digest of its own. A store that is to be trusted may be
read without its password, as Java does; the digest is unchecked then.
"""

import hashlib
import hmac
import struct
from typing import NamedTuple

from penstock.credentials.der import OCTET_STRING, DerBroken, parse_der

JKS_MAGIC = bytes.fromhex("feedfeed")
KEY_ENTRY, CERTIFICATE_ENTRY = 1, 2
ENTRIES_MAX = 100_000
_SALT = b"Mighty Aphrodite"  # a constant of the format
_KEY_PROTECTOR = "1.3.6.1.4.1.42.2.17.1.1"
_DIGEST_BYTES = 20


class JksBroken(ValueError):
    """The store cannot be read: broken, or another password."""


class JksKey(NamedTuple):
    """A private key, still masked, and its certificates in DER, its own first."""

    alias: str
    masked: bytes
    chain: tuple[bytes, ...]


class JksContent(NamedTuple):
    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]  # certificates in DER


def read_jks(data: bytes, password: str | None) -> JksContent:
    """Return the entries of a store. Raise JksBroken for broken bytes or another password."""
    try:
        return _read(data, password)
    except (struct.error, UnicodeDecodeError) as problem:
        raise JksBroken("the store is cut or broken") from problem


def unmask_key(key: JksKey, password: str) -> bytes:
    """Return a private key in DER (PKCS #8). Raise JksBroken for another password."""
    try:
        algorithm, masked = parse_der(key.masked).values()
        if algorithm.values()[0].as_oid() != _KEY_PROTECTOR or masked.tag != OCTET_STRING:
            raise JksBroken(f"the key {key.alias} is protected by an unknown method")
    except (DerBroken, IndexError, ValueError) as problem:
        raise JksBroken(f"the key {key.alias} is broken: {problem}") from problem
    secret = password.encode("utf-16-be")
    salt, digest = masked.content[:_DIGEST_BYTES], masked.content[-_DIGEST_BYTES:]
    content = masked.content[_DIGEST_BYTES:-_DIGEST_BYTES]
    mask, link = bytearray(), salt
    while len(mask) < len(content):
        link = hashlib.sha1(secret + link, usedforsecurity=False).digest()
        mask += link
    plain = bytes(one ^ other for one, other in zip(content, mask, strict=False))
    if not hmac.compare_digest(
        hashlib.sha1(secret + plain, usedforsecurity=False).digest(), digest
    ):
        raise JksBroken(f"the key {key.alias} has another password")
    return plain


def _read(data: bytes, password: str | None) -> JksContent:
    if len(data) < 12 + _DIGEST_BYTES or not data.startswith(JKS_MAGIC):
        raise JksBroken("the store is cut or broken")
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        secret = password.encode("utf-16-be") + _SALT
        found = hashlib.sha1(secret + content, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise JksBroken("the store is broken, or has another password")
    version, count = struct.unpack_from(">II", content, 4)
    if version not in (1, 2) or count > ENTRIES_MAX:
        raise JksBroken(f"the store has version {version} and {count} entries")
    reader = _EntryReader(content, 12, typed=version == 2)
    keys: list[JksKey] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag, alias = reader.number(), reader.text()
        reader.skip(8)  # the time of creation
        if tag == KEY_ENTRY:
            masked = reader.data()
            chain = tuple(reader.certificate() for _ in range(reader.number()))
            keys.append(JksKey(alias, masked, chain))
        elif tag == CERTIFICATE_ENTRY:
            trusted.append(reader.certificate())
        else:
            raise JksBroken(f"the store has an entry of type {tag}")
    return JksContent(tuple(keys), tuple(trusted))


class _EntryReader:
    """The fields of entries, one after the other."""

    def __init__(self, data: bytes, position: int, *, typed: bool) -> None:
        self._data = data
        self._position = position
        self._typed = typed

    def number(self) -> int:
        (number,) = struct.unpack_from(">I", self._data, self._position)
        self._position += 4
        return int(number)

    def text(self) -> str:
        (size,) = struct.unpack_from(">H", self._data, self._position)
        self._position += 2
        return self._take(size).decode()

    def data(self) -> bytes:
        return self._take(self.number())

    def certificate(self) -> bytes:
        if self._typed:
            kind = self.text()
            if kind != "X.509":
                raise JksBroken(f"the store has a certificate of type {kind}")
        return self.data()

    def skip(self, size: int) -> None:
        self._take(size)

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise JksBroken("the store is cut or broken")
        taken = self._data[self._position : end]
        self._position = end
        return taken
