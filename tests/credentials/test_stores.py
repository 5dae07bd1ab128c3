"""Key stores and trust stores: each format gives the same PEM, and a bad one names its key."""

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st
from jks_writer import jks_bytes
from tls_stores import PASSWORD, Stores

from penstock.credentials.jks import JksBroken, read_jks, unmask_key
from penstock.credentials.stores import (
    BadStore,
    TlsStore,
    certificate_pem,
    certificates_in,
    identity,
    trusted_certificates,
)
from penstock.credentials.tls import Tls
from penstock.tls_context import client_context, server_context


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


def key_store(location: str = "/keys", **more: str | None) -> TlsStore:
    return TlsStore("keystore", location, password=PASSWORD, **more)  # type: ignore[arg-type]


def trust_store(password: str | None = PASSWORD) -> TlsStore:
    return TlsStore("truststore", "/trust", password=password)


def der_of(pem: str) -> bytes:
    return certificates_in(pem)[0]


def client_jks(stores: Stores, key_password: str | None = None) -> bytes:
    key = stores.client.key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    chain = certificates_in(stores.client_chain_pem)
    return jks_bytes(PASSWORD, keys={"client": (key, chain)}, key_password=key_password)


def trust_jks(stores: Stores) -> bytes:
    return jks_bytes(PASSWORD, trusted={"ca": der_of(stores.authority.certificate_pem())})


def file_bytes(name: str) -> Callable[[Stores], bytes]:
    return lambda stores: Path(stores.path(name)).read_bytes()


@pytest.mark.parametrize(
    "content", [file_bytes("ca.pem"), file_bytes("trust.p12"), trust_jks], ids=["PEM", "P12", "JKS"]
)
def test_a_trust_store_of_each_format_holds_the_same_certificate(
    stores: Stores, content: Callable[[Stores], bytes]
) -> None:
    pem = trusted_certificates(trust_store(), content(stores))
    assert der_of(pem) == der_of(stores.authority.certificate_pem())


@pytest.mark.parametrize(
    "content",
    [file_bytes("client.pem"), file_bytes("client.p12"), client_jks],
    ids=["PEM", "P12", "JKS"],
)
def test_a_key_store_of_each_format_makes_an_identity(
    stores: Stores, content: Callable[[Stores], bytes]
) -> None:
    found = identity(key_store(key_password=PASSWORD), content(stores))
    assert certificates_in(found.pem) == certificates_in(stores.client_chain_pem)
    client_context(Tls().settings(stores.authority.certificate_pem(), found))


def test_a_trust_store_of_java_needs_no_password(stores: Stores) -> None:
    assert trusted_certificates(trust_store(None), trust_jks(stores))


def test_the_key_of_a_java_store_may_have_its_own_password(stores: Stores) -> None:
    data = client_jks(stores, key_password="other")
    assert "PRIVATE KEY" in identity(key_store(key_password="other"), data).pem
    with pytest.raises(BadStore, match=r"is ssl\.key\.password right\?.*keytool -list"):
        identity(key_store(), data)


@pytest.mark.parametrize("name", ["trust.p12", "trust.jks"])
def test_a_wrong_password_names_its_key_file_and_command(stores: Stores, name: str) -> None:
    data = trust_jks(stores) if name == "trust.jks" else Path(stores.path(name)).read_bytes()
    store = TlsStore("truststore", name, password="wrong", prefix="listener.name.in.")
    with pytest.raises(BadStore) as failed:
        trusted_certificates(store, data)
    assert f"listener.name.in.ssl.truststore.location={name} cannot be opened" in str(failed.value)
    assert "is listener.name.in.ssl.truststore.password right?" in str(failed.value)
    assert f"keytool -list -keystore {name}" in str(failed.value)
    assert "wrong" not in str(failed.value).replace("wrong password", "")


def test_a_key_store_without_a_key_is_rejected(stores: Stores) -> None:
    with pytest.raises(BadStore, match="holds no private key"):
        identity(key_store(), trust_jks(stores))


@pytest.mark.skipif(not shutil.which("keytool"), reason="Java's own stores need its keytool")
def test_a_store_that_java_wrote_is_read(tmp_path: Path) -> None:
    path = tmp_path / "java.jks"
    subprocess.run(
        ["keytool", "-genkeypair", "-alias", "node", "-keyalg", "EC", "-groupname", "secp256r1",
         "-dname", "CN=node", "-validity", "2", "-storetype", "JKS", "-keystore", str(path),
         "-storepass", PASSWORD, "-keypass", "key-secret"],
        check=True, capture_output=True,
    )  # fmt: skip
    found = identity(key_store(str(path), key_password="key-secret"), path.read_bytes())
    assert isinstance(server_context(Tls().settings(None, found)), ssl.SSLContext)


SMALL = jks_bytes("secret", {"ca": b"certificate"}, {"key": (b"private key", [b"chain"])})


@given(st.integers(0, len(SMALL) - 1), st.integers(1, 255))
def test_a_changed_byte_of_a_java_store_is_noticed(at: int, change: int) -> None:
    changed = bytearray(SMALL)
    changed[at] ^= change
    with pytest.raises(JksBroken):
        read_jks(bytes(changed), "secret")


@given(st.integers(0, len(SMALL) - 1), st.binary(max_size=8))
def test_broken_java_stores_raise_nothing_but_their_error(at: int, change: bytes) -> None:
    changed = SMALL[:at] + change + SMALL[at + len(change) :]
    try:
        for key in read_jks(changed, None).keys:
            unmask_key(key, "secret")
    except JksBroken:
        pass


def test_a_certificate_reads_as_it_was_written() -> None:
    assert certificates_in(certificate_pem(b"x" * 100)) == [b"x" * 100]
