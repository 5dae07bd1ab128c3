"""Java's key store format, written for tests: trusted certificates, and keys under a password."""

import hashlib
import os
import struct
from collections.abc import Mapping, Sequence

KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")


def jks_bytes(
    password: str,
    trusted: Mapping[str, bytes] | None = None,
    keys: Mapping[str, tuple[bytes, Sequence[bytes]]] | None = None,
    key_password: str | None = None,
) -> bytes:
    """Return a store; keys are in PKCS #8, certificates in DER."""
    entries = [
        struct.pack(">I", 2) + _text(alias) + bytes(8) + _certificate(each)
        for alias, each in (trusted or {}).items()
    ]
    for alias, (key, chain) in (keys or {}).items():
        masked = _masked(key, password if key_password is None else key_password)
        entries.append(
            struct.pack(">I", 1) + _text(alias) + bytes(8) + _long(masked)
            + struct.pack(">I", len(chain)) + b"".join(map(_certificate, chain))
        )  # fmt: skip
    content = bytes.fromhex("feedfeed") + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    secret = password.encode("utf-16-be") + b"Mighty Aphrodite"
    return content + hashlib.sha1(secret + content).digest()


def _masked(key: bytes, password: str) -> bytes:
    secret, link = password.encode("utf-16-be"), os.urandom(20)
    masked = bytearray(link)
    for at in range(0, len(key), 20):
        link = hashlib.sha1(secret + link).digest()
        masked += bytes(one ^ other for one, other in zip(key[at : at + 20], link, strict=False))
    masked += hashlib.sha1(secret + key).digest()
    algorithm = _der(0x30, KEY_PROTECTOR + b"\x05\x00")
    return _der(0x30, algorithm + _der(0x04, bytes(masked)))


def _der(tag: int, content: bytes) -> bytes:
    return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content


def _certificate(der: bytes) -> bytes:
    return _text("X.509") + _long(der)


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data
