"""SASL in the settings of a node: what starts, what is refused, and what the refusal advises."""

import pytest

from penstock.config.broker import BrokerConfig
from penstock.config.check import validate_broker_config
from penstock.config.sasl import controller_mechanism, inter_broker_mechanism, listener_sasl
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import Scram
from penstock.errors import InvalidConfig

LISTENER = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "log.dirs": "data",
}
MODULES = "org.apache.kafka.common.security"
PLAIN_JAAS = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-secret";'
NODE_JAAS = (
    f'{MODULES}.plain.PlainLoginModule required username="node" password="node-secret" '
    'user_node="node-secret";'
)
NODE_SCRAM_JAAS = (
    f'{MODULES}.scram.ScramLoginModule required username="node" password="node-secret";'
)
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_JAAS,
}
BEARER = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/keys",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.expected.audience": "kafka",
}
CONTROLLER = {
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "log.dirs": "data",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": NODE_JAAS,
}


def problem(settings: dict[str, str]) -> str:
    with pytest.raises(InvalidConfig) as refused:
        BrokerConfig.of(settings)
    assert "secret" not in refused.value.message
    return refused.value.message


def test_a_listener_with_scram_needs_no_login_module() -> None:
    settings = listener_sasl(BrokerConfig.of({**LISTENER, **SCRAM}), "SASL_PLAINTEXT")
    assert settings.mechanisms == ("SCRAM-SHA-512",)
    assert not settings.modules


def test_a_mechanism_and_its_users_may_be_those_of_one_listener() -> None:
    config = BrokerConfig.of(
        {
            "listeners": "A://:9092,B://:9093",
            "log.dirs": "data",
            "listener.security.protocol.map": "A:SASL_PLAINTEXT,B:SASL_PLAINTEXT",
            "inter.broker.listener.name": "A",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            "listener.name.a.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.a.scram-sha-256.sasl.jaas.config": NODE_SCRAM_JAAS,
            "listener.name.a.scram-sha-256.connections.max.reauth.ms": "5000",
            "listener.name.b.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.b.plain.sasl.jaas.config": PLAIN_JAAS,
            "listener.name.b.connections.max.reauth.ms": "7000",
            "connections.max.reauth.ms": "9000",
        }
    )
    a, b = listener_sasl(config, "A"), listener_sasl(config, "B")
    assert (a.mechanisms, b.mechanisms) == (("SCRAM-SHA-256",), ("PLAIN", "SCRAM-SHA-256"))
    assert dict(a.lifetimes_ms) == {"SCRAM-SHA-256": 5_000}
    assert dict(b.lifetimes_ms) == {"PLAIN": 7_000, "SCRAM-SHA-256": 7_000}
    assert b.modules["PLAIN"].options == {"user_alice": "alice-secret"}
    assert inter_broker_mechanism(config) == Scram("SCRAM-SHA-256", "node", "node-secret")


def test_kafkas_own_handler_of_tokens_may_be_named() -> None:
    pytest.importorskip("jwt")
    handler = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    key = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    config = BrokerConfig.of({**LISTENER, **BEARER, key: handler})
    found = listener_sasl(config, "SASL_PLAINTEXT").bearer
    assert found is not None
    assert (found.issuer, found.audiences) == ("https://issuer", ("kafka",))
    assert (found.subject_claim, found.skew_ms) == ("sub", 30_000)


def test_tokens_need_a_library_that_a_node_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.config.sasl.find_spec", lambda _: None)
    assert "pip install 'penstock[oauth]'" in problem({**LISTENER, **BEARER})


def test_the_default_of_kafka_is_refused_with_what_to_set() -> None:
    text = problem(LISTENER)
    assert "offers GSSAPI, which is not served (Kafka's default)" in text
    assert "listener.name.sasl_plaintext.sasl.enabled.mechanisms" in text


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "offers DIGEST-MD5, which is not served"),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER"},
            "nothing says which tokens prove a name; add "
            "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url=... and "
            "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.expected.issuer=... and "
            "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.expected.audience=...",
        ),
        ({**BEARER, "sasl.oauthbearer.expected.issuer": ""}, "expected.issuer=..."),
        (
            {**BEARER, "sasl.oauthbearer.jwks.endpoint.url": "ftp://issuer/keys"},
            "it is an https, http or file URL",
        ),
        ({"sasl.enabled.mechanisms": ""}, "offers no mechanism"),
        (
            {"sasl.enabled.mechanisms": "PLAIN"},
            "offers PLAIN and has no users; add "
            "listener.name.sasl_plaintext.plain.sasl.jaas.config=",
        ),
        (
            {
                **PLAIN,
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": NODE_SCRAM_JAAS,
            },
            "PLAIN goes with PlainLoginModule, the value names ScramLoginModule",
        ),
        (
            {
                **PLAIN,
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'a.B required x="secret"',
            },
            "does not end with a semicolon",
        ),
        (
            {
                **PLAIN,
                "listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": "a.B",
            },
            "names a class of Java",
        ),
        (
            {**SCRAM, "inter.broker.listener.name": "SASL_PLAINTEXT"},
            "sasl.mechanism.inter.broker.protocol is GSSAPI, Kafka's default; set it to one of",
        ),
        (
            {
                **SCRAM,
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            },
            "but the listener SASL_PLAINTEXT offers SCRAM-SHA-512",
        ),
        (
            {
                **SCRAM,
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            },
            "this node has no user to log in to the listener SASL_PLAINTEXT",
        ),
    ],
)
def test_a_listener_that_nobody_could_use_is_refused(settings: dict[str, str], text: str) -> None:
    assert text in problem({**LISTENER, **settings})


def test_controllers_log_in_to_each_other_by_plain() -> None:
    assert controller_mechanism(BrokerConfig.of(CONTROLLER)) == SaslPlain("node", "node-secret")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-512"},
            "a controller knows the credentials of SCRAM only once it has the metadata",
        ),
        ({"sasl.mechanism.controller.protocol": "GSSAPI"}, "set it to PLAIN"),
        (
            {"listener.name.controller.plain.sasl.jaas.config": PLAIN_JAAS},
            "this node has no user to log in to the listener CONTROLLER",
        ),
    ],
)
def test_a_quorum_that_could_not_form_is_refused(settings: dict[str, str], text: str) -> None:
    assert text in problem({**CONTROLLER, **settings})


@pytest.mark.parametrize(
    ("mechanism", "value"), [("plain", "nonsense secret"), ("plain", NODE_SCRAM_JAAS)]
)
def test_a_running_node_takes_no_login_module_that_it_cannot_read(
    mechanism: str, value: str
) -> None:
    name = f"listener.name.sasl_plaintext.{mechanism}.sasl.jaas.config"
    with pytest.raises(InvalidConfig) as refused:
        validate_broker_config(name, value)
    assert "secret" not in refused.value.message
    validate_broker_config(name, PLAIN_JAAS)
