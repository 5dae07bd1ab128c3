"""An authority, a server's identity and a client's, as PEM and PKCS12, made for one test run."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"


class Identity(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        cipher: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            cipher = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher
        ).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()


@dataclass(frozen=True, slots=True)
class Stores:
    """The authority signs an authority between, which signs the client: a chain of two."""

    place: Path
    authority: Identity
    between: Identity
    server: Identity
    client: Identity
    node: Identity  # at 127.0.0.1 too

    @classmethod
    def make(cls, place: Path, name: str = "authority") -> "Stores":
        place.mkdir(exist_ok=True)
        authority = _identity(name, None, authority=True)
        between = _identity("between", authority, authority=True)
        made = cls(
            place,
            authority,
            between,
            _identity("localhost", authority),
            _identity("client", between),
            _identity("node", authority, "localhost", "127.0.0.1"),
        )
        made._write()
        return made

    def path(self, name: str) -> str:
        return str(self.place / name)

    def sign(
        self, name: str, *hosts: str, days: float = 1, organization: str | None = None
    ) -> Identity:
        """Another identity of the authority."""
        return _identity(name, self.authority, *hosts, days=days, organization=organization)

    @property
    def client_chain_pem(self) -> str:
        return self.client.certificate_pem() + self.between.certificate_pem()

    def _write(self) -> None:
        encrypted = self.client.key_pem(PASSWORD)
        texts = {
            "ca.pem": self.authority.certificate_pem(),
            "node.pem": self.node.key_pem() + self.node.certificate_pem(),
            "server.pem": self.server.key_pem() + self.server.certificate_pem(),
            "client.pem": encrypted + self.client_chain_pem,
            "client.crt": self.client_chain_pem,
            "client.key": encrypted,
        }
        for name, text in texts.items():
            (self.place / name).write_text(text)
        cipher = serialization.BestAvailableEncryption(PASSWORD.encode())
        (self.place / "trust.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(
                None, None, None, [self.authority.certificate], cipher
            )
        )
        (self.place / "client.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"client", self.client.key, self.client.certificate,
                [self.between.certificate], cipher,
            )
        )  # fmt: skip
        (self.place / "old.jks").write_bytes(bytes.fromhex("cececece") + bytes(20))


def _identity(
    name: str,
    signer: Identity | None,
    *hosts: str,
    authority: bool = False,
    days: float = 1,
    organization: str | None = None,
) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization is not None:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    subject = x509.Name(parts)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([_host(each) for each in hosts or (name,)]), critical=False
        )
    )
    signing = key if signer is None else signer.key
    return Identity(key, builder.sign(signing, hashes.SHA256()))


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
