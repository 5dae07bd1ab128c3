"""A certificate authority of one's own: keys on P-256, certificates for nodes and clients.

Needs the package `cryptography`, so that nothing imports this module to start a node.
"""

import re
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3_650
CERTIFICATE_DAYS = 365
CLOCKS_DIFFER = timedelta(minutes=10)  # a new certificate is valid on nodes with slow clocks
_HOST_NAME = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


class IssuedCertificate(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "IssuedCertificate(...)"

    @property
    def pem(self) -> str:
        """Return both in one text, as a key store."""
        return self.key + self.certificate


class CertificateSubject(NamedTuple):
    """The owner of a certificate. A node serves under its hosts; a client has none."""

    name: str
    hosts: tuple[str, ...] = ()


def make_authority(name: str, now: datetime) -> IssuedCertificate:
    """Return a new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, _name(name), key.public_key(), now, AUTHORITY_DAYS)
    usage = _usage(signs_certificates=True)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(_identifier(key.public_key()), critical=False)
    )
    return _issued(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: IssuedCertificate, subject: CertificateSubject, now: datetime
) -> IssuedCertificate:
    """Return a new key with a certificate that the authority has signed."""
    signer = x509.load_pem_x509_certificate(authority.certificate.encode())
    signing_key = serialization.load_pem_private_key(authority.key.encode(), None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey), "our authorities are on P-256"
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject.name, signer.subject, key.public_key(), now, CERTIFICATE_DAYS)
    # A node is a client of other nodes.
    uses = [_SERVER, _CLIENT] if subject.hosts else [_CLIENT]
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key())
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(_identifier(key.public_key()), critical=False)
        .add_extension(known, critical=False)
    )
    if subject.hosts:
        names = x509.SubjectAlternativeName([_host(each) for each in subject.hosts])
        builder = builder.add_extension(names, critical=False)
    return _issued(builder.sign(signing_key, hashes.SHA256()), key)


def subject_of(certificate: str) -> CertificateSubject:
    """Return the owner of a certificate of ours."""
    loaded = x509.load_pem_x509_certificate(certificate.encode())
    name = loaded.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    try:
        extension = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        hosts = tuple(str(each.value) for each in extension.value)
    except x509.ExtensionNotFound:
        hosts = ()
    return CertificateSubject(str(name), hosts)


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _identifier(key: ec.EllipticCurvePublicKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key)


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> IssuedCertificate:
    return IssuedCertificate(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def is_host(text: str) -> bool:
    """Return whether a certificate can name the host."""
    try:
        ip_address(text)
    except ValueError:
        return _HOST_NAME.fullmatch(text) is not None
    return True
