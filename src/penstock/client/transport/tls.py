"""TLS settings from Kafka's `ssl.*` keys, and the context that Python makes of them.

Settings that Python's ssl module lacks are rejected before the first connection. The module cannot
choose among the cipher suites of TLS 1.3: if only such suites are named, TLS 1.3 is required.
"""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.transport.stores import BadStore, TlsStore, identity, trusted_certificates

VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
PROTOCOLS_DEFAULT = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings; without a trust store the system's authorities are trusted."""

    truststore: TlsStore | None = None
    keystore: TlsStore | None = None
    check_host: bool = True
    protocols: tuple[str, ...] = PROTOCOLS_DEFAULT
    cipher_suites: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> "Tls":
        """Read the keys. Raise ValueError with the wrong key."""
        algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip()
        if algorithm.lower() not in ("", "https"):
            raise ValueError(
                f"ssl.endpoint.identification.algorithm={algorithm}: only https, or nothing"
            )
        protocols = _list(properties, "ssl.enabled.protocols") or PROTOCOLS_DEFAULT
        unknown = [each for each in protocols if each not in VERSIONS]
        if unknown:
            raise ValueError(
                f"ssl.enabled.protocols: {unknown[0]} is not one of {', '.join(VERSIONS)}"
            )
        return cls(
            _truststore(properties),
            _keystore(properties),
            check_host=bool(algorithm),
            protocols=protocols,
            cipher_suites=_list(properties, "ssl.cipher.suites"),
        )

    def context(self) -> ssl.SSLContext:
        """Read the stores and return the context. Raise ValueError with the unusable store."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_host
        versions = sorted(VERSIONS[each] for each in self.protocols)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
        self._limit_ciphers(context)
        if self.truststore is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            try:
                context.load_verify_locations(cadata=trusted_certificates(self.truststore))
            except ssl.SSLError as problem:
                raise BadStore(
                    f"the certificates of ssl.truststore cannot be read: {problem}"
                ) from problem
        if self.keystore is not None:
            _load_identity(context, self.keystore)
        return context

    def _limit_ciphers(self, context: ssl.SSLContext) -> None:
        if not self.cipher_suites:
            return
        older = [openssl_name(each) for each in self.cipher_suites if "_WITH_" in each]
        if not older:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            return
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError as problem:
            raise ValueError(f"ssl.cipher.suites: OpenSSL knows none of {older}") from problem
        if len(older) == len(self.cipher_suites):
            context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is
    ECDHE-RSA-AES256-GCM-SHA384."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher)
    cipher = cipher.replace("_CBC_SHA", "_SHA").removesuffix("_POLY1305_SHA256")
    if cipher == "CHACHA20":
        cipher = "CHACHA20_POLY1305"
    # OpenSSL has no name part for a key exchange by RSA alone.
    named = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return named.replace("_", "-")


def _list(properties: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in properties.get(key, "").split(","))))


def _truststore(properties: Mapping[str, str]) -> TlsStore | None:
    location = properties.get("ssl.truststore.location")
    certificates = properties.get("ssl.truststore.certificates")
    if not location and not certificates:
        return None
    return TlsStore(
        "truststore",
        location or None,
        properties.get("ssl.truststore.type", ""),
        properties.get("ssl.truststore.password"),
        certificates,
    )


def _keystore(properties: Mapping[str, str]) -> TlsStore | None:
    location = properties.get("ssl.keystore.location")
    chain = properties.get("ssl.keystore.certificate.chain")
    key = properties.get("ssl.keystore.key")
    if bool(chain) != bool(key):
        raise ValueError("ssl.keystore.certificate.chain and ssl.keystore.key go together")
    if not location and not key:
        return None
    return TlsStore(
        "keystore",
        location or None,
        properties.get("ssl.keystore.type", ""),
        properties.get("ssl.keystore.password"),
        chain,
        key,
        properties.get("ssl.key.password"),
    )


def _load_identity(context: ssl.SSLContext, store: TlsStore) -> None:
    """Load the key from a private temporary file, deleted at once: OpenSSL takes no other
    source."""
    from tempfile import TemporaryDirectory

    pem, password = identity(store)
    with TemporaryDirectory(prefix="penstock-") as place:
        path = os.path.join(place, "identity.pem")
        with open(path, "w", encoding="ascii", opener=_private) as file:
            file.write(pem)
        try:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=password or "")
        except (ssl.SSLError, OSError) as problem:
            raise BadStore(
                "the key of ssl.keystore cannot be used; is ssl.key.password right, and does the "
                f"certificate belong to the key? ({problem})"
            ) from problem


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
