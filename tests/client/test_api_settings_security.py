"""Kafka's keys of TLS and SASL: what librdkafka is told, and a node that it reaches by them."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from librdkafka_told import NOWHERE
from tls_front import TlsFront
from tls_stores import PASSWORD, Stores

from penstock.client.settings import (
    SettingRefused,
    admin_settings,
    consumer_settings,
    producer_settings,
)
from penstock.client.transport.sasl import OAuthBearer
from penstock.client.transport.security import Protocol
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import Scram
from penstock.testing import Cluster
from penstock.testing.node_settings import HeldPort

MODULES = "org.apache.kafka.common.security"


def jaas(module: str, **options: str) -> str:
    words = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"{MODULES}.{module} required{words};"


PLAIN = jaas("plain.PlainLoginModule", username="alice", password="s3cret")
SCRAM = jaas("scram.ScramLoginModule", username="alice", password="s3cret")
BEARER = "oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


def rdkafka(given: dict[str, Any]) -> dict[str, Any]:
    """The same for both kinds of clients; both are made, to see that librdkafka takes it."""
    of_producer = producer_settings(given, bootstrap=NOWHERE).rdkafka
    of_consumer = consumer_settings({"group.id": "g", **given}, bootstrap=NOWHERE).rdkafka
    for name, value in of_producer.items():
        if name.startswith(("ssl.", "sasl.", "security.")) and name != "ssl.key.password":
            assert name.endswith(".pem") or of_consumer[name] == value, name
    confluent_kafka.Producer(of_producer)
    confluent_kafka.Consumer(of_consumer).close()
    return of_producer


# -- SASL


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "sasl_ssl"])
@pytest.mark.parametrize(
    ("mechanism", "config"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("scram-sha-512", SCRAM)],
)
def test_user_and_password_come_from_the_jaas_configuration(
    protocol: str, mechanism: str, config: str
) -> None:
    told = rdkafka(
        {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": config,
        }
    )
    assert told["sasl.mechanism"] == mechanism.upper()
    assert (told["sasl.username"], told["sasl.password"]) == ("alice", "s3cret")
    assert told["security.protocol"] == protocol.lower()
    assert "sasl.jaas.config" not in told


def test_librdkafkas_own_user_and_password_pass() -> None:
    told = rdkafka(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "s3cret",
        }
    )
    assert (told["sasl.username"], told["sasl.mechanism"]) == ("alice", "PLAIN")


def test_tokens_are_made_by_the_options_of_the_jaas_configuration() -> None:
    told = producer_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas(
                BEARER, unsecuredLoginStringClaim_sub="alice", extension_pool="blue"
            ),
        },
        bootstrap=NOWHERE,
    ).rdkafka
    before = time.time()
    give: Any = told["oauth_cb"]
    token, expires, principal, extensions = give("")
    assert json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["sub"] == "alice"
    assert before + 3000 < expires < before + 4000
    assert (principal, extensions) == ("alice", {"pool": "blue"})
    confluent_kafka.Producer(told)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[str]]]:
    """A token endpoint, and the tokens that it gave."""
    given: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            given.append(f"opaque-{len(given)}")
            body = json.dumps({"access_token": given[-1], "expires_in": 600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/token", given
    server.shutdown()
    thread.join()
    server.server_close()


def test_tokens_are_fetched_from_an_endpoint(endpoint: tuple[str, list[str]]) -> None:
    url, given = endpoint
    told = producer_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas(BEARER),
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": "secret",
            "sasl.login.callback.handler.class": f"{MODULES}.oauthbearer.secured."
            "OAuthBearerLoginCallbackHandler",
        },
        bootstrap=NOWHERE,
    ).rdkafka
    # Made at once: librdkafka asks for its first token while it is being made.
    confluent_kafka.Producer(told)
    assert given == ["opaque-0"]


def test_a_function_of_ones_own_gives_tokens() -> None:
    asked = threading.Event()

    def give(_configuration: str) -> tuple[str, float]:
        asked.set()
        return "token", time.time() + 600

    told = producer_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": give,
        },
        bootstrap=NOWHERE,
    ).rdkafka
    confluent_kafka.Producer(told)
    assert asked.is_set()


def test_tokens_for_nobody_are_not_waited_for() -> None:
    said = producer_settings({"oauth_cb": print}, bootstrap=NOWHERE)
    assert "oauth_cb" not in said.rdkafka
    assert said.ignored[0][0] == "oauth_cb"


@pytest.mark.parametrize(
    ("given", "key", "reason"),
    [
        ({"sasl.jaas.config": PLAIN}, "sasl.mechanism", "GSSAPI"),
        ({"sasl.mechanism": "DIGEST-MD5"}, "sasl.mechanism", "it is one of PLAIN"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.jaas.config", "is missing"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
            "sasl.mechanism",
            "goes with PlainLoginModule",
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": jaas(
                    "scram.ScramLoginModule", username="t", password="s3cret", tokenauth="true"
                ),
            },
            "sasl.jaas.config",
            "delegation token",
        ),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN, "sasl.username": "bob"},
            "sasl.username",
            "say one of them",
        ),
        ({"sasl.username": "bob"}, "sasl.mechanism", "is missing"),
        ({"security.protocol": "TLS"}, "security.protocol", "PLAINTEXT, SSL"),
    ],
    ids=str,
)
def test_credentials_that_are_wrong_are_said_without_secrets(
    given: dict[str, Any], key: str, reason: str
) -> None:
    with pytest.raises(SettingRefused) as refused:
        producer_settings({"security.protocol": "SASL_PLAINTEXT", **given}, bootstrap=NOWHERE)
    assert refused.value.key == key
    assert reason in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_secrets_are_not_printed() -> None:
    said = producer_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": PLAIN,
            "basic.auth.user.info": "me:other-s3cret",
        },
        bootstrap=NOWHERE,
    )
    assert "s3cret" not in repr(said)


def test_without_tls_and_sasl_their_keys_have_no_effect_and_nothing_is_read() -> None:
    said = producer_settings(
        {"ssl.truststore.location": "/nowhere", "sasl.mechanism": "GSSAPI"}, bootstrap=NOWHERE
    )
    assert said.ignored == (
        ("ssl.truststore.location", "security.protocol is PLAINTEXT"),
        ("sasl.mechanism", "security.protocol is PLAINTEXT"),
    )
    confluent_kafka.Producer(said.rdkafka)


# -- TLS, in words


def test_a_truststore_becomes_pem(stores: Stores) -> None:
    for given in (
        {"ssl.truststore.location": stores.path("ca.pem"), "ssl.truststore.type": "PEM"},
        {"ssl.truststore.location": stores.path("trust.p12"), "ssl.truststore.password": PASSWORD},
        {"ssl.truststore.certificates": stores.authority.certificate_pem()},
    ):
        told = rdkafka({"security.protocol": "SSL", **given})
        assert told["ssl.ca.pem"].strip() == stores.authority.certificate_pem().strip()


def test_a_keystore_becomes_a_chain_and_a_key(stores: Stores) -> None:
    for given in (
        {"ssl.keystore.location": stores.path("client.pem"), "ssl.key.password": PASSWORD},
        {"ssl.keystore.location": stores.path("client.p12"), "ssl.keystore.password": PASSWORD},
        {
            "ssl.keystore.certificate.chain": stores.client_chain_pem,
            "ssl.keystore.key": stores.client.key_pem(PASSWORD),
            "ssl.key.password": PASSWORD,
        },
    ):
        told = rdkafka({"security.protocol": "SSL", **given})
        assert told["ssl.certificate.pem"].replace("\n", "") == stores.client_chain_pem.replace(
            "\n", ""
        )
        assert told["ssl.key.pem"].startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        assert told["ssl.key.password"]


def test_other_keys_of_tls_are_translated() -> None:
    told = rdkafka(
        {
            "security.protocol": "SSL",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,"
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        }
    )
    assert told["ssl.endpoint.identification.algorithm"] == "none"
    assert told["ssl.cipher.suites"] == "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256"


def test_suites_of_tls_1_3_stay_allowed_and_that_is_said() -> None:
    said = producer_settings(
        {"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"},
        bootstrap=NOWHERE,
    )
    assert "ssl.cipher.suites" not in said.rdkafka
    assert said.ignored[0][0] == "ssl.cipher.suites"


@pytest.mark.parametrize(
    ("given", "key", "reason"),
    [
        ({"ssl.truststore.location": "{place}/old.jks"}, "ssl.truststore.location", "keytool"),
        ({"ssl.keystore.location": "{place}/old.jks"}, "ssl.keystore.location", "keytool"),
        ({"ssl.truststore.location": "{place}/none"}, "ssl.truststore.location", "No such file"),
        (
            {"ssl.truststore.location": "{place}/trust.p12", "ssl.truststore.password": "wrong"},
            "ssl.truststore.location",
            "is ssl.truststore.password right?",
        ),
        ({"ssl.keystore.location": "{place}/ca.pem"}, "ssl.keystore.location", "no private key"),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "ssl.enabled.protocols", "has no TLSv1.2"),
        ({"ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols", "is not one of"),
        ({"ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class", "Java"),
        (
            {"ssl.truststore.location": "{place}/ca.pem", "ssl.ca.location": "x"},
            "ssl.ca.location",
            "say one of them",
        ),
    ],
    ids=str,
)
def test_stores_that_are_wrong_are_said_with_the_way_out(
    given: dict[str, str], key: str, reason: str, stores: Stores
) -> None:
    given = {name: value.replace("{place}", str(stores.place)) for name, value in given.items()}
    with pytest.raises(SettingRefused) as refused:
        producer_settings({"security.protocol": "SSL", **given}, bootstrap=NOWHERE)
    assert refused.value.key == key
    assert reason in str(refused.value)


# -- TLS, against a node


@pytest.fixture(scope="module")
def front(stores: Stores) -> Iterator[TlsFront]:
    """A node behind TLS that asks for a certificate of the authority's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.path("server.pem"))
    context.load_verify_locations(stores.path("ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    held = HeldPort("127.0.0.1")
    with TlsFront(context) as made:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{held.port}",
            "advertised.listeners": f"PLAINTEXT://localhost:{made.port}",
        }
        with Cluster(settings):
            made.serve("127.0.0.1", held.port)
            yield made
    held.close()


def by_pem(stores: Stores) -> dict[str, str]:
    return {
        "ssl.truststore.location": stores.path("ca.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": stores.path("client.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.key.password": PASSWORD,
    }


def by_pkcs12(stores: Stores) -> dict[str, str]:
    return {
        "ssl.truststore.location": stores.path("trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.keystore.location": stores.path("client.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
    }


def by_text(stores: Stores) -> dict[str, str]:
    return {
        "ssl.truststore.certificates": stores.authority.certificate_pem(),
        "ssl.keystore.certificate.chain": stores.client_chain_pem,
        "ssl.keystore.key": stores.client.key_pem(),
    }


def by_librdkafkas_names(stores: Stores) -> dict[str, str]:
    return {
        "ssl.ca.location": stores.path("ca.pem"),
        "ssl.certificate.location": stores.path("client.crt"),
        "ssl.key.location": stores.path("client.key"),
        "ssl.key.password": PASSWORD,
    }


@pytest.mark.parametrize("said", [by_pem, by_pkcs12, by_text, by_librdkafkas_names])
def test_a_producer_reaches_a_node_that_asks_for_its_certificate(
    said: Callable[[Stores], dict[str, str]], stores: Stores, front: TlsFront
) -> None:
    front.subjects.clear()
    told = producer_settings(
        {"security.protocol": "SSL", **said(stores)}, bootstrap=f"localhost:{front.port}"
    ).rdkafka
    producer = confluent_kafka.Producer(told)
    failures: list[object] = []
    producer.produce("tls", b"x", on_delivery=lambda error, _: failures.append(error))
    producer.flush(20)
    assert failures == [None]
    assert set(front.subjects) == {"client"}


def test_a_node_with_another_name_is_not_trusted_unless_names_do_not_count(
    stores: Stores, front: TlsFront
) -> None:
    # The certificate is for localhost.
    given = {"security.protocol": "SSL", **by_pem(stores)}
    address = f"127.0.0.1:{front.port}"
    strict = confluent_kafka.Producer(producer_settings(given, bootstrap=address).rdkafka)
    with pytest.raises(confluent_kafka.KafkaException):
        strict.list_topics(timeout=1)
    given["ssl.endpoint.identification.algorithm"] = ""
    lenient = confluent_kafka.Producer(producer_settings(given, bootstrap=address).rdkafka)
    assert lenient.list_topics(timeout=20).brokers


def test_a_node_of_another_authority_is_not_trusted(
    stores: Stores, front: TlsFront, tmp_path: Path
) -> None:
    other = Stores.make(tmp_path)
    given = {
        "security.protocol": "SSL",
        **by_pem(stores),
        "ssl.truststore.location": other.path("ca.pem"),
    }
    address = f"localhost:{front.port}"
    producer = confluent_kafka.Producer(producer_settings(given, bootstrap=address).rdkafka)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.list_topics(timeout=1)


# -- Admin


def test_admin_takes_the_same_keys(stores: Stores) -> None:
    said = admin_settings(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM,
            **by_pkcs12(stores),
            "client.id": "me",
            "request.timeout.ms": "5",
            "default.api.timeout.ms": 6,
            "namespace": "dev.",
        },
        bootstrap="a:1,b:2",
    )
    assert said.security is not None
    assert said.security.protocol is Protocol.SASL_SSL
    assert said.security.mechanism == Scram("SCRAM-SHA-512", "alice", "s3cret")
    assert said.security.context() is not None
    assert (said.bootstrap, said.client_id, said.namespace) == ("a:1,b:2", "me", "dev.")
    assert (said.request_timeout_ms, said.api_timeout_ms) == (5, 6)
    assert "s3cret" not in repr(said)


def test_admin_understands_librdkafkas_names_of_tls_and_sasl(stores: Stores) -> None:
    password = 'a"b\\c;\n'
    said = admin_settings(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
            **by_librdkafkas_names(stores),
        },
        bootstrap=NOWHERE,
    )
    assert said.security is not None
    assert said.security.mechanism == SaslPlain("alice", password)
    assert said.security.context() is not None


def test_admin_may_log_in_with_tokens() -> None:
    said = admin_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas(BEARER, unsecuredLoginStringClaim_sub="alice"),
        },
        bootstrap=NOWHERE,
    )
    assert said.security is not None
    assert isinstance(said.security.mechanism, OAuthBearer)


def test_an_admin_call_has_the_time_of_a_request_at_least() -> None:
    given = {"default.api.timeout.ms": 1_000, "request.timeout.ms": 5_000}
    with pytest.raises(SettingRefused, match=r"less than request\.timeout\.ms \(5000\); raise it"):
        admin_settings(given, bootstrap=NOWHERE)
    assert admin_settings({"default.api.timeout.ms": 1_000}, bootstrap=NOWHERE).api_timeout_ms


def test_admin_without_security_has_none() -> None:
    assert admin_settings({}, bootstrap=NOWHERE).security is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"security.protocol": "SSL", "ssl.key.location": "/nowhere"}, "cannot be read"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "a"}, "sasl.mechanism: is ''"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "is not offered"),
        ({"bootstrap.controllers": "a:1"}, "say bootstrap.servers"),
    ],
    ids=str,
)
def test_what_admin_cannot_do_is_said(given: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        admin_settings(given, bootstrap=NOWHERE)
    assert reason in str(refused.value)


def test_serializers_mean_nothing_to_admin() -> None:
    said = admin_settings({"schema.registry.url": "http://x", "acks": "all"}, bootstrap=NOWHERE)
    assert {key for key, _ in said.ignored} == {"schema.registry.url", "acks"}
