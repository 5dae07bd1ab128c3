"""TLS settings from Kafka's `ssl.*` keys, for clients and nodes.

Settings that Python's ssl module lacks are rejected before the first connection. The module cannot
choose among the cipher suites of TLS 1.3: if only such suites are named, TLS 1.3 is required.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.credentials.stores import TlsIdentity, TlsStore
from penstock.world import TlsSettings

VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
PROTOCOLS_DEFAULT = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings with stores that are not read yet; without a trust store the system's
    authorities are trusted."""

    truststore: TlsStore | None = None
    keystore: TlsStore | None = None
    check_host: bool = True
    protocols: tuple[str, ...] = PROTOCOLS_DEFAULT
    cipher_suites: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], prefix: str = "") -> "Tls":
        """Read the keys. Raise ValueError with the wrong key; texts have `prefix` before keys."""
        algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip()
        if algorithm.lower() not in ("", "https"):
            raise ValueError(
                f"{prefix}ssl.endpoint.identification.algorithm={algorithm}: only https, or nothing"
            )
        protocols = _list(properties, "ssl.enabled.protocols") or PROTOCOLS_DEFAULT
        unknown = [each for each in protocols if each not in VERSIONS]
        if unknown:
            raise ValueError(
                f"{prefix}ssl.enabled.protocols: {unknown[0]} is not one of {', '.join(VERSIONS)}"
            )
        return cls(
            _truststore(properties, prefix),
            _keystore(properties, prefix),
            check_host=bool(algorithm),
            protocols=protocols,
            cipher_suites=_list(properties, "ssl.cipher.suites"),
        )

    def settings(
        self, trusted: str | None, identity: TlsIdentity | None, client_auth: str = "none"
    ) -> TlsSettings:
        """Return the settings with the contents of their stores, as PEM."""
        versions = sorted(self.protocols, key=VERSIONS.index)
        low, high = versions[0], versions[-1]
        older = [openssl_name(each) for each in self.cipher_suites if "_WITH_" in each]
        if self.cipher_suites and not older:
            low = "TLSv1.3"
        elif older and len(older) == len(self.cipher_suites):
            high = min(high, "TLSv1.2", key=VERSIONS.index)
        return TlsSettings(
            identity="" if identity is None else identity.pem,
            key_password=None if identity is None else identity.password,
            trusted=trusted,
            versions=(low, high),
            ciphers=":".join(older),
            client_auth=client_auth,
            check_host=self.check_host,
        )


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


def _truststore(properties: Mapping[str, str], prefix: str) -> TlsStore | None:
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
        prefix=prefix,
    )


def _keystore(properties: Mapping[str, str], prefix: str) -> TlsStore | None:
    location = properties.get("ssl.keystore.location")
    chain = properties.get("ssl.keystore.certificate.chain")
    key = properties.get("ssl.keystore.key")
    if bool(chain) != bool(key):
        raise ValueError(
            f"{prefix}ssl.keystore.certificate.chain and {prefix}ssl.keystore.key go together"
        )
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
        prefix,
    )
