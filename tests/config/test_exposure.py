"""What a network reaches unprotected is said at the start, or keeps a node from starting."""

import pytest

from penstock.config.broker import BrokerConfig
from penstock.config.exposure import exposed
from penstock.config.load import ConfigRejected, ConfigText, load

MODULES = "org.apache.kafka.common.security"
USERS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required username="a" password="b" user_a="b";'
    ),
}
SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        f'{MODULES}.scram.ScramLoginModule required username="a" password="b";'
    ),
}


def config(listener: str, **more: str) -> BrokerConfig:
    protocol = listener.partition(":")[0]
    return BrokerConfig.of(
        {
            "metrics.listener": "",
            "listeners": listener,
            "inter.broker.listener.name": protocol,
            "advertised.listeners": f"{protocol}://h:9092",
            **more,
        }
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_a_listener_of_this_machine_is_not_exposed(host: str) -> None:
    assert exposed(config(f"PLAINTEXT://{host}:9092")) == ()


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]", "kafka.example.org", "10.0.0.7"])
def test_a_listener_of_a_network_without_a_login_is_exposed(host: str) -> None:
    (sentence,) = exposed(config(f"PLAINTEXT://{host}:9092"))
    assert sentence.endswith("is open to the network without a login")


def test_passwords_in_clear_are_exposed() -> None:
    listener = config("SASL_PLAINTEXT://:9092", **USERS)
    (sentence,) = exposed(listener)
    assert sentence.endswith("is open to the network with passwords in clear")


def test_passwords_that_are_never_sent_are_not_exposed() -> None:
    assert exposed(config("SASL_PLAINTEXT://:9092", **SCRAM)) == ()


@pytest.mark.parametrize(("auth", "count"), [("none", 1), ("requested", 1), ("required", 0)])
def test_tls_alone_is_no_login(auth: str, count: int) -> None:
    assert len(exposed(config("SSL://:9092", **{"ssl.client.auth": auth}))) == count


def test_metrics_for_a_network_are_exposed() -> None:
    found = exposed(config("PLAINTEXT://127.0.0.1:9092", **{"metrics.listener": "0.0.0.0:9404"}))
    assert found == ("metrics.listener=0.0.0.0:9404 is open to the network without a login",)


def test_an_exposed_node_starts_unless_that_is_refused() -> None:
    lines = "listeners=PLAINTEXT://:9092\n"
    assert load([ConfigText("f", lines)]).config.text("insecure.listeners") == "warn"
    with pytest.raises(ConfigRejected, match="without a login, and insecure"):
        load([ConfigText("f", lines + "insecure.listeners=refuse\n")])
