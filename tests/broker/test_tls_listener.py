"""Listeners with TLS: which peers connect, under which name, and what a node says of the others."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tls_nodes import connect, listener_settings
from tls_stores import PASSWORD, Stores

from penstock.client.transport.connection import CannotReach, NotAuthenticated
from penstock.config.broker import BrokerConfig
from penstock.credentials.principal import ANONYMOUS, Principal
from penstock.node.opening import StartRefused
from penstock.start_obstacles import find_obstacles
from penstock.testing import Cluster
from penstock.testing.failures import NodeFailed
from penstock.wire.messages.k03_metadata import MetadataRequest, MetadataResponse


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def cluster(stores: Stores) -> Iterator[Cluster]:
    settings = listener_settings(stores, ssl_client_auth="requested")
    with Cluster(settings) as made:
        yield made


def principals(cluster: Cluster) -> list[Principal]:
    return [each.caller.principal for each in cluster.broker.listeners[0].connections]


def test_a_client_is_served_over_tls(cluster: Cluster, stores: Stores) -> None:
    with connect(cluster, stores) as connection:
        answer = connection.request(MetadataRequest(topics=[]), MetadataResponse)
        assert [(each.host, each.port) for each in answer.brokers] == [cluster.addresses["SSL"]]
        assert ANONYMOUS in principals(cluster)


def test_a_certificate_gives_the_principal(cluster: Cluster, stores: Stores) -> None:
    with connect(cluster, stores, shows=True) as connection:
        connection.request(MetadataRequest(topics=[]), MetadataResponse)
        assert Principal("CN=client") in principals(cluster)


def test_rules_map_the_name_of_a_certificate(stores: Stores) -> None:
    settings = listener_settings(stores, ssl_client_auth="required") | {
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"
    }
    with Cluster(settings) as cluster:
        with connect(cluster, stores, shows=True):
            assert principals(cluster) == [Principal("CLIENT")]
        with pytest.raises(CannotReach):
            connect(cluster, stores)


def test_a_certificate_without_a_principal_is_turned_away(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    settings = listener_settings(stores, ssl_client_auth="required") | {
        "ssl.principal.mapping.rules": "RULE:^O=(.*)$/$1/"
    }
    with Cluster(settings) as cluster, pytest.raises(CannotReach):
        connect(cluster, stores, shows=True)
    assert "no rule of ssl.principal.mapping.rules fits CN=client" in caplog.text


@pytest.mark.parametrize(
    ("sent", "spoken"),
    [(b"\0\0\0\x0a\0\x12\0\0", "Kafka's protocol without TLS"), (b"GET / HTTP/1.1\r\n", "HTTP")],
)
def test_one_line_names_both_sides_at_a_port_with_tls(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, sent: bytes, spoken: str
) -> None:
    with socket.create_connection(cluster.addresses["SSL"], 10) as client:
        client.sendall(sent)
        client.settimeout(10)
        assert is_over(client)
    lines = [each.getMessage() for each in caplog.records if each.name == "penstock.connections"]
    assert len(lines) == 1
    assert f"it speaks {spoken}" in lines[0] and "the listener SSL speaks SSL" in lines[0]


@pytest.mark.parametrize(
    ("sent", "spoken"), [(b"\x16\x03\x01\x02\0\x01\0\x01\xfc", "TLS"), (b"GET / HTTP/1", "HTTP")]
)
def test_one_line_names_both_sides_at_a_plain_port(
    caplog: pytest.LogCaptureFixture, sent: bytes, spoken: str
) -> None:
    with Cluster() as plain, socket.create_connection(plain.address, 10) as client:
        client.sendall(sent + bytes(20))
        client.settimeout(10)
        assert is_over(client)
    assert f"it sent {spoken}; the listener PLAINTEXT speaks PLAINTEXT" in caplog.text


def is_over(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


BAD_STORES = {
    "missing": ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location=/nowhere cannot be"),
    "none": ({"ssl.keystore.location": ""}, "set listener.name.ssl.ssl.keystore.location=FILE"),
    "password": (
        {"ssl.truststore.location": "{place}/trust.p12", "ssl.truststore.password": "wrong"},
        "is listener.name.ssl.ssl.truststore.password right?",
    ),
    "no key": ({"ssl.keystore.location": "{place}/ca.pem"}, "holds no private key"),
    "another key": ({"ssl.keystore.location": "{place}/stolen.pem"}, "belong to the key"),
    "locked": ({"ssl.keystore.location": "{place}/client.pem"}, "is ssl.key.password right"),
    "expired": ({"ssl.keystore.location": "{place}/old.pem"}, "of CN=old has expired"),
    "rules": ({"ssl.principal.mapping.rules": "RULE:x"}, "Invalid rule: RULE:x"),
    "java": ({"ssl.engine.factory.class": "x.Y"}, "cannot run here"),
    "strange": ({"ssl.truststore.certificates": "{client}"}, "cannot connect to a server with"),
}


@pytest.mark.parametrize("case", BAD_STORES, ids=str)
def test_a_bad_store_stops_the_start_and_is_named(stores: Stores, case: str) -> None:
    given, reason = BAD_STORES[case]
    place = Path(stores.path(""))
    old = stores.sign("old", "localhost", days=-1)
    (place / "old.pem").write_text(old.key_pem() + old.certificate_pem())
    (place / "stolen.pem").write_text(stores.client.key_pem() + stores.server.certificate_pem())
    settings = listener_settings(stores) | {"security.inter.broker.protocol": "SSL"}
    texts = {"place": str(place), "client": stores.client.certificate_pem()}
    settings |= {name: text.format(**texts) for name, text in given.items()}
    if case == "strange":
        del settings["ssl.truststore.location"]
    with pytest.raises((NodeFailed, StartRefused)) as failed, Cluster(settings):
        pass
    assert reason in str(failed.value)
    assert PASSWORD not in str(failed.value)


def test_a_check_before_the_start_names_a_bad_store(stores: Stores, tmp_path: Path) -> None:
    good = listener_settings(stores) | {"log.dirs": str(tmp_path / "data")}
    assert find_obstacles(BrokerConfig.of(good)).problems == []
    stolen = tmp_path / "stolen.pem"
    stolen.write_text(stores.client.key_pem() + stores.server.certificate_pem())
    for location, reason in ("/nowhere", "cannot be read"), (str(stolen), "belong to the key"):
        bad = BrokerConfig.of(good | {"ssl.keystore.location": location})
        (problem,) = find_obstacles(bad).problems
        assert location in problem and reason in problem


def test_a_listener_has_keys_of_its_own() -> None:
    config = BrokerConfig.of(
        {
            "listeners": "ONE://127.0.0.1:1,TWO://127.0.0.1:2",
            "listener.security.protocol.map": "ONE:SSL,TWO:SSL",
            "inter.broker.listener.name": "ONE",
            "ssl.keystore.location": "/general",
            "listener.name.two.ssl.keystore.location": "/two",
            "log.dirs": "/x",
        }
    )
    assert config.tls_properties("ONE")["ssl.keystore.location"] == "/general"
    assert config.tls_properties("TWO")["ssl.keystore.location"] == "/two"


def test_a_client_that_trusts_another_authority_learns_that(
    cluster: Cluster, stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(NotAuthenticated, match="its certificate is not accepted"):
        connect(cluster, stores, trusts="client.crt")
