"""Kafka's security keys, key stores, and TLS against a scripted server."""

import pickle
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from scripted_cluster import ScriptedCluster
from scripted_log import batch_of

from penstock.client.cluster.nodes import Nodes
from penstock.client.raw.batch_writer import BatchWriter
from penstock.client.raw.range_reader import OffsetRange, RangeReader
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.client.transport.sasl import OAuthBearer
from penstock.client.transport.security import Protocol, Security
from penstock.client.transport.tls_files import tls_context
from penstock.client.transport.tokens import EndpointTokens, FileTokens, UnsecuredTokens
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import Scram
from penstock.credentials.stores import BadStore
from penstock.credentials.tls import Tls, openssl_name
from penstock.model import TopicPartition

MODULES = "org.apache.kafka.common.security"
needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="makes keys with openssl")


def jaas(module: str, **options: str) -> str:
    return f"{MODULES}.{module} required " + "".join(
        f'{name}="{value}" ' for name, value in options.items()
    ) + ";"  # fmt: skip


PLAIN = jaas("plain.PlainLoginModule", username="alice", password="secret")
SCRAM = jaas("scram.ScramLoginModule", username="alice", password="secret")
BEARER = "oauthbearer.OAuthBearerLoginModule"


def security(**keys: str) -> Security:
    return Security.from_properties({name.replace("_", "."): value for name, value in keys.items()})


# -- keys


def test_without_any_key_nothing_is_secured() -> None:
    assert Security.from_properties({}) == Security(Protocol.PLAINTEXT, None, None)


def test_keys_of_tls_mean_nothing_without_it() -> None:
    assert security(ssl_truststore_location="/nowhere").tls is None


def test_each_mechanism_takes_its_credentials() -> None:
    plain = security(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)
    assert plain.mechanism == SaslPlain("alice", "secret")
    assert plain.tls == Tls()
    scram = security(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=SCRAM,
    )
    assert scram.mechanism == Scram("SCRAM-SHA-512", "alice", "secret")
    assert scram.tls is None


def bearer(text: str, **keys: str) -> OAuthBearer:
    made = security(
        security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_jaas_config=text, **keys
    )
    assert isinstance(made.mechanism, OAuthBearer)
    return made.mechanism


def test_tokens_come_from_where_the_keys_say() -> None:
    unsecured = jaas(BEARER, unsecuredLoginStringClaim_sub="a", unsecuredLoginExtension_x="y")
    assert isinstance(bearer(unsecured).source, UnsecuredTokens)
    assert bearer(unsecured).extensions == {"x": "y"}
    credentials = jaas(BEARER, clientId="me", clientSecret="hidden", scope="s")
    url = "https://example.test/token"
    fetched = bearer(credentials, sasl_oauthbearer_token_endpoint_url=url).source
    assert isinstance(fetched, EndpointTokens)
    assert (fetched.url, fetched.client_id, fetched.scope) == (url, "me", "s")
    read = bearer(jaas(BEARER), sasl_oauthbearer_token_endpoint_url="file:///tmp/t").source
    assert read == FileTokens("/tmp/t")


def test_secrets_are_not_printed() -> None:
    made = [
        security(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN),
        security(
            security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_jaas_config=jaas(BEARER, clientId="me", clientSecret="secret"),
            sasl_oauthbearer_token_endpoint_url="http://example.test",
            ssl_truststore_location="/x",
            ssl_truststore_password="secret",
            ssl_keystore_location="/x",
            ssl_keystore_password="secret",
            ssl_key_password="secret",
        ),
    ]
    assert all("secret" not in repr(each) for each in made)


def test_security_travels_to_other_processes() -> None:
    made = security(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN)
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: it is one of PLAINTEXT, SSL"),
        ({"sasl.mechanism": "GSSAPI"}, "Kerberos.*not offered"),
        ({}, "GSSAPI.*not offered"),
        ({"sasl.mechanism": "NTLM"}, "it is one of PLAIN"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.jaas.config is missing"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM}, "goes with PlainLoginModule"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.PlainLoginModule")},
            "no username",
        ),
        (
            {
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": PLAIN,
                "sasl.login.callback.handler.class": "com.example.Mine",
            },
            "Mine is Java and cannot run here",
        ),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas(BEARER)}, "principal"),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": jaas(BEARER, clientId="me"),
                "sasl.oauthbearer.token.endpoint.url": "http://example.test",
            },
            "needs clientSecret",
        ),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": jaas(BEARER),
                "sasl.oauthbearer.token.endpoint.url": "gopher://example.test",
            },
            "http, https or file",
        ),
    ],
)
def test_a_wrong_key_is_named(keys: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Security.from_properties({"security.protocol": "SASL_PLAINTEXT", **keys})


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"ssl.enabled.protocols": "SSLv3"}, "SSLv3 is not one of"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "only https"),
        ({"ssl.keystore.key": "x"}, "go together"),
        ({"ssl.truststore.location": "/x", "ssl.truststore.type": "BCFKS"}, "use PKCS12 or PEM"),
    ],
)
def test_a_wrong_key_of_tls_is_named(keys: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Security.from_properties({"security.protocol": "SSL", **keys})


# -- stores


@pytest.mark.parametrize("type_", ["JKS", "", "PKCS12"])
def test_a_jceks_store_is_recognised_and_its_conversion_named(tmp_path: Path, type_: str) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(bytes.fromhex("cececece") + bytes(40))
    tls = Tls.from_properties({"ssl.truststore.location": str(store), "ssl.truststore.type": type_})
    with pytest.raises(BadStore, match=f"keytool -importkeystore .*-srckeystore {store} "):
        tls_context(tls)


def test_a_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadStore, match=r"ssl\.keystore\.location=/nowhere/k cannot be read"):
        tls_context(Tls.from_properties({"ssl.keystore.location": "/nowhere/k"}))
    (tmp_path / "x").write_text("hello")
    with pytest.raises(BadStore, match="neither PEM nor PKCS12 nor JKS"):
        tls_context(Tls.from_properties({"ssl.truststore.location": str(tmp_path / "x")}))


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ],
)
def test_a_cipher_suite_has_another_name_in_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = tls_context(Tls(cipher_suites=(java,)))
    assert openssl in [each["name"] for each in context.get_ciphers()]


def test_protocols_bound_the_versions() -> None:
    context = tls_context(Tls.from_properties({"ssl.enabled.protocols": "TLSv1.2"}))
    assert context.maximum_version == context.minimum_version == ssl.TLSVersion.TLSv1_2
    suites = {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}
    newest = tls_context(Tls.from_properties(suites))
    assert newest.minimum_version == ssl.TLSVersion.TLSv1_3


# -- over sockets


class Keys:
    """An authority, and certificates that it signed."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._openssl(
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2",
        )  # fmt: skip

    def sign(self, name: str, alternative: str) -> tuple[Path, Path]:
        """Certificate and key."""
        (self.place / "ext").write_text(f"subjectAltName={alternative}\n")
        self._openssl(
            "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}",
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "ext",
        )  # fmt: skip
        return self.place / f"{name}.pem", self.place / f"{name}.key"

    def encrypt(self, key: Path, password: str) -> str:
        self._openssl(
            "pkcs8", "-topk8", "-in", key.name, "-out", "locked.key", "-passout", f"pass:{password}"
        )
        return (self.place / "locked.key").read_text()

    def pkcs12(self, name: str, password: str) -> Path:
        self._openssl(
            "pkcs12", "-export", "-in", f"{name}.pem", "-inkey", f"{name}.key", "-certfile",
            "ca.pem", "-out", f"{name}.p12", "-passout", f"pass:{password}",
        )  # fmt: skip
        return self.place / f"{name}.p12"

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.place, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


def server_context(keys: Keys, *, ask_client: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*keys.sign("server", "DNS:localhost,IP:127.0.0.1"))
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(keys.place / "ca.pem")
    return context


def trusting(keys: Keys, **more: str) -> Security:
    location = str(keys.place / "ca.pem")
    return security(security_protocol="SSL", ssl_truststore_location=location, **more)


@needs_openssl
def test_everything_works_over_tls(keys: Keys) -> None:
    partition = TopicPartition("t", 0)
    with ScriptedCluster(context=server_context(keys)) as cluster:
        cluster.create("t", 2)
        nodes = Nodes(cluster.bootstrap, security=trusting(keys))
        writer = BatchWriter(nodes)
        sent = [bytes([number]) * 30_000 for number in range(20)]
        for number, value in enumerate(sent):
            writer.send(partition, batch_of(value, producer=(1, 0, number)), 1)
            writer.send(TopicPartition("t", 1), batch_of(value), 1)
        writer.flush()
        assert cluster.logs[partition].values() == sent
        ranges = [OffsetRange(partition, 0, 20)]
        chunks = list(RangeReader(nodes, ranges, committed_only=False).chunks())
        assert sum(len(each.records) for each in chunks) > 600_000
        nodes.close()


@needs_openssl
def test_a_server_that_nobody_trusted_is_refused(keys: Keys) -> None:
    with (
        ScriptedCluster(context=server_context(keys)) as cluster,
        pytest.raises(NotAuthenticated, match=r"ssl\.truststore\.location names who is trusted"),
    ):
        Connection("127.0.0.1", cluster.port(1), security=security(security_protocol="SSL"))


@needs_openssl
def test_the_host_name_is_checked_unless_that_is_switched_off(keys: Keys) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*keys.sign("other", "DNS:elsewhere"))
    with ScriptedCluster(context=context) as cluster:
        with pytest.raises(NotAuthenticated, match="its certificate is not accepted"):
            Connection("127.0.0.1", cluster.port(1), security=trusting(keys))
        unchecked = trusting(keys, ssl_endpoint_identification_algorithm="")
        Connection("127.0.0.1", cluster.port(1), security=unchecked).close()


@needs_openssl
def test_a_client_shows_its_certificate(keys: Keys) -> None:
    certificate, key = keys.sign("client", "DNS:client")
    locked = keys.encrypt(key, "secret")
    with ScriptedCluster(context=server_context(keys, ask_client=True)) as cluster:
        known = trusting(
            keys,
            ssl_keystore_type="PEM",
            ssl_keystore_certificate_chain=certificate.read_text(),
            ssl_keystore_key=locked,
            ssl_key_password="secret",
        )
        Connection("127.0.0.1", cluster.port(1), security=known).close()
        # A server that closes at once may take the alert that says so with it.
        with pytest.raises(CannotReach, match=r"CERTIFICATE_REQUIRED|client certificate"):
            Connection("127.0.0.1", cluster.port(1), security=trusting(keys))


@needs_openssl
@pytest.mark.parametrize("password", ["wrong", None])
def test_a_key_that_stays_locked_is_said(keys: Keys, password: str | None) -> None:
    certificate, key = keys.sign("client", "DNS:client")
    given = {} if password is None else {"ssl_key_password": password}
    known = trusting(
        keys,
        ssl_keystore_certificate_chain=certificate.read_text(),
        ssl_keystore_key=keys.encrypt(key, "secret"),
        **given,
    )
    with pytest.raises(BadStore, match=r"ssl\.key\.password"):
        known.context()


@needs_openssl
def test_pkcs12_stores_are_opened(keys: Keys) -> None:
    keys.sign("client", "DNS:client")
    store = str(keys.pkcs12("client", "secret"))
    stores = {"ssl_truststore_location": store, "ssl_truststore_password": "secret"}
    with ScriptedCluster(context=server_context(keys, ask_client=True)) as cluster:
        known = security(
            security_protocol="SSL",
            ssl_keystore_location=store,
            ssl_keystore_password="secret",
            **stores,
        )
        Connection("127.0.0.1", cluster.port(1), security=known).close()
    with pytest.raises(BadStore, match=r"is ssl\.truststore\.password right"):
        security(security_protocol="SSL", **{**stores, "ssl_truststore_password": "x"}).context()


@needs_openssl
def test_a_plain_client_learns_that_a_server_speaks_tls(keys: Keys) -> None:
    with (
        ScriptedCluster(context=server_context(keys)) as cluster,
        pytest.raises(CannotReach, match=r"security\.protocol|closed the connection|reset"),
    ):
        Connection("127.0.0.1", cluster.port(1))


@pytest.mark.parametrize(
    ("said", "final"), [(b"", False), (bytes(20), True)], ids=["closes", "speaks something else"]
)
def test_a_tls_client_learns_that_a_server_does_not(said: bytes, final: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        port = listener.getsockname()[1]
        with pytest.raises(CannotReach, match=r"is security\.protocol right") as failed:
            Connection("127.0.0.1", port, security=security(security_protocol="SSL"))
        assert isinstance(failed.value, NotAuthenticated) is final
