"""An authority, a server's identity and a client's, as PEM and PKCS12, made for one test run."""

import datetime
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

    @classmethod
    def make(cls, place: Path) -> "Stores":
        authority = _identity("authority", None, authority=True)
        between = _identity("between", authority, authority=True)
        made = cls(
            place,
            authority,
            between,
            _identity("localhost", authority),
            _identity("client", between),
        )
        made._write()
        return made

    def path(self, name: str) -> str:
        return str(self.place / name)

    @property
    def client_chain_pem(self) -> str:
        return self.client.certificate_pem() + self.between.certificate_pem()

    def _write(self) -> None:
        encrypted = self.client.key_pem(PASSWORD)
        texts = {
            "ca.pem": self.authority.certificate_pem(),
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
        (self.place / "old.jks").write_bytes(bytes.fromhex("feedfeed") + bytes(20))


def _identity(name: str, signer: Identity | None, *, authority: bool = False) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if signer is None else signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    signing = key if signer is None else signer.key
    return Identity(key, builder.sign(signing, hashes.SHA256()))
