"""Names of certificates as Java writes them; the expected texts are those of X500Principal."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from penstock.credentials.certificate import parse_certificate
from penstock.credentials.der import DerBroken
from penstock.security.distinguished_name import name_text, subject_name

CN, ORG, COUNTRY = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, NameOID.COUNTRY_NAME
MAIL, SERIAL = NameOID.EMAIL_ADDRESS, NameOID.SERIAL_NUMBER


def name(*parts: tuple[ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts]).public_bytes()


@pytest.mark.parametrize(
    ("parts", "java"),
    [
        (((COUNTRY, "DE"), (ORG, "Acme"), (CN, "node")), "CN=node,O=Acme,C=DE"),
        (((CN, "a,b+c=d"),), r"CN=a\,b\+c\=d"),
        (((CN, '"#;<>\\'),), r"CN=\"\#\;\<\>\\"),
        (((CN, " both "),), r"CN=\ both\ "),
        (((CN, "Käthe"),), "CN=Käthe"),
        (
            ((CN, "a"), (MAIL, "a@b.c")),
            "1.2.840.113549.1.9.1=#160561 40622e63,CN=a".replace(" ", ""),
        ),
        (((CN, "a"), (SERIAL, "7")), "2.5.4.5=#130137,CN=a"),
        (
            ((NameOID.DOMAIN_COMPONENT, "org"), (NameOID.USER_ID, "u"), (CN, "x")),
            "CN=x,UID=u,DC=org",
        ),
        (
            (
                (NameOID.LOCALITY_NAME, "l"),
                (NameOID.STATE_OR_PROVINCE_NAME, "s"),
                (NameOID.STREET_ADDRESS, "w"),
            ),
            "STREET=w,ST=s,L=l",
        ),
        ((), ""),
    ],
)
def test_a_name_is_written_as_java_writes_it(
    parts: tuple[tuple[ObjectIdentifier, str], ...], java: str
) -> None:
    assert name_text(name(*parts)) == java


def test_several_attributes_of_one_part_are_joined_by_plus() -> None:
    part = x509.RelativeDistinguishedName(
        [x509.NameAttribute(CN, "a"), x509.NameAttribute(ORG, "b")]
    )
    assert name_text(x509.Name([part]).public_bytes()) in ("CN=a+O=b", "O=b+CN=a")


def test_a_value_that_is_no_text_is_written_as_hex() -> None:
    bits = x509.NameAttribute(NameOID.X500_UNIQUE_IDENTIFIER, b"\x01", _ASN1Type.BitString)
    text = name_text(x509.Name([bits]).public_bytes())
    assert text.startswith("2.5.4.45=#03")


def certificate(*hosts: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(CN, "node")])
    begin = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(CN, "ca")]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(begin)
        .not_valid_after(begin.replace(year=2060))
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


CERTIFICATE = certificate("one", "two")


def test_a_certificate_is_read() -> None:
    found = parse_certificate(CERTIFICATE)
    assert subject_name(CERTIFICATE) == "CN=node"
    assert name_text(found.issuer) == "CN=ca"
    assert found.alternative_names == {b"\x82\x03one", b"\x82\x03two"}
    assert found.not_before_ms == 1_767_323_045_000
    assert found.not_after_ms - found.not_before_ms == 1_072_915_200_000
    assert parse_certificate(certificate()).alternative_names == frozenset()


@given(st.integers(0, len(CERTIFICATE) - 1), st.binary(max_size=4))
def test_broken_certificates_raise_nothing_but_their_error(at: int, change: bytes) -> None:
    try:
        subject_name(CERTIFICATE[:at] + change + CERTIFICATE[at + len(change) :])
    except DerBroken:
        pass


@given(st.binary(max_size=60))
def test_bytes_that_are_no_name_raise_nothing_but_their_error(data: bytes) -> None:
    try:
        name_text(data)
    except DerBroken:
        pass
