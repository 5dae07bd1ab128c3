"""The typed view: values, sources, synonyms, addresses, checks across keys."""

import pytest

from penstock.config import (
    Address,
    BrokerConfig,
    ConfigSource,
    Synonym,
    VoterAddress,
    check_dynamic,
    describe_broker,
    describe_cluster_default,
    validate_broker_config,
)
from penstock.errors import InvalidConfig, InvalidRequest


def refusal(**settings: str) -> str:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.of(named)
    return caught.value.message


def test_without_settings_a_node_is_a_cluster_of_one() -> None:
    config = BrokerConfig.of({})
    assert config.node_id == 1
    assert config.is_broker
    assert config.is_controller
    assert config.sole_voter
    assert config.voters == ()
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.get("log.retention.ms") == 7 * 24 * 3_600_000


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert BrokerConfig.of({"broker.id": "4"}).node_id == 4
    assert BrokerConfig.of({"broker.id": "4"}).get("node.id") == 4
    assert BrokerConfig.of({"node.id": "4"}).source("broker.id") is ConfigSource.STATIC_BROKER
    assert "two names of one number" in refusal(broker_id="4", node_id="5")


def test_an_unknown_key_is_a_mistake_of_the_code() -> None:
    with pytest.raises(KeyError):
        BrokerConfig.of({}).get("no.such.key")


def test_dynamic_values_come_before_static_ones() -> None:
    static = BrokerConfig.of({"log.retention.ms": "1", "message.max.bytes": "5"})
    config = static.with_dynamic({"log.retention.ms": "3"}, {"log.retention.ms": "2"})
    assert config.get("log.retention.ms") == 3
    assert config.synonyms("log.retention.ms") == (
        Synonym("log.retention.ms", "3", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.ms", "1", ConfigSource.STATIC_BROKER),
    )
    assert config.source("message.max.bytes") is ConfigSource.STATIC_BROKER
    assert config.with_dynamic({}, {}).get("log.retention.ms") == 1
    assert static.get("log.retention.ms") == 1


def test_a_dynamic_value_that_cannot_be_is_left_out_and_named() -> None:
    config = BrokerConfig.of({}).with_dynamic(
        {"node.id": "9", "message.max.bytes": "-1", "no.such": "1"},
        {"listeners": "PLAINTEXT://:1"},
    )
    assert config.node_id == 1
    assert config.get("message.max.bytes") == 1_048_588
    assert len(config.ignored) == 4


def test_describe_tells_value_source_type_and_synonyms() -> None:
    config = BrokerConfig.of({"ssl.key.password": "secret", "log.segment.bytes": "1048576"})
    rows = {row.name: row for row in describe_broker(config)}
    segment = rows["log.segment.bytes"]
    assert (segment.value, segment.source, segment.type) == ("1048576", 4, 3)
    assert not segment.read_only
    assert segment.synonyms[1] == Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT)
    assert rows["ssl.key.password"].is_sensitive
    assert rows["ssl.key.password"].value is None
    assert rows["ssl.key.password"].synonyms[0].value is None
    assert rows["node.id"].value == "1"
    assert rows["node.id"].read_only
    assert rows["log.retention.ms"].value is None
    assert rows["log.retention.ms"].source == 5


def test_describe_answers_only_what_was_asked() -> None:
    rows = list(describe_broker(BrokerConfig.of({}), ["log.dir", "no.such.key"]))
    assert [row.name for row in rows] == ["log.dir"]


def test_the_cluster_default_has_only_what_was_set_for_all() -> None:
    config = BrokerConfig.of({}).with_dynamic({}, {"log.retention.ms": "2"})
    (row,) = describe_cluster_default(config)
    assert (row.name, row.value, row.source) == ("log.retention.ms", "2", 3)
    assert list(describe_cluster_default(config, ["log.dir"])) == []


def test_a_broker_without_controller_needs_to_know_one() -> None:
    assert "controller.quorum.bootstrap.servers" in refusal(process_roles="broker")


def test_voters_are_parsed_and_checked() -> None:
    config = BrokerConfig.of(
        {
            "process.roles": "broker",
            "node.id": "9",
            "controller.quorum.voters": "1@a:9093,2@[::1]:9094",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert config.voters == (
        VoterAddress(1, Address("a", 9093)),
        VoterAddress(2, Address("::1", 9094)),
    )
    assert not config.sole_voter
    assert "id@host:port" in refusal(controller_quorum_voters="a:9093")
    assert "twice" in refusal(controller_quorum_voters="1@a:1,1@b:1")
    assert "has no node 1" in refusal(controller_quorum_voters="2@a:1,3@b:1")


def test_another_hosts_controller_makes_this_node_not_the_only_voter() -> None:
    settings = {
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
    }
    own = {"controller.quorum.bootstrap.servers": "localhost:9093"}
    other = {"controller.quorum.bootstrap.servers": "elsewhere:9093"}
    two = {"controller.quorum.bootstrap.servers": "localhost:9093,elsewhere:9093"}
    assert BrokerConfig.of({**settings, **own}).sole_voter
    assert not BrokerConfig.of({**settings, **other}).sole_voter
    assert not BrokerConfig.of({**settings, **two}).sole_voter


def test_a_controller_of_several_needs_a_listener_for_the_others() -> None:
    assert "controller.listener.names=CONTROLLER" in refusal(controller_quorum_voters="1@a:1,2@b:1")
    assert "add CONTROLLER://" in refusal(
        controller_quorum_voters="1@a:1,2@b:1", controller_listener_names="CONTROLLER"
    )


def test_a_controller_listener_on_a_mere_broker_is_refused() -> None:
    assert "remove it from listeners" in refusal(
        process_roles="broker",
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        controller_listener_names="CONTROLLER",
        controller_quorum_bootstrap_servers="a:9093",
    )


def test_a_broker_needs_a_listener_for_clients() -> None:
    assert "add one for clients" in refusal(
        listeners="CONTROLLER://:9093", controller_listener_names="CONTROLLER"
    )


def test_a_listener_name_needs_a_protocol() -> None:
    assert "listener.security.protocol.map=INSIDE:PLAINTEXT" in refusal(listeners="INSIDE://:9092")
    config = BrokerConfig.of(
        {
            "listeners": "inside://h:1,OUTSIDE://[::1]:0",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert [str(each) for each in config.listeners] == ["INSIDE://h:1", "OUTSIDE://[::1]:0"]
    assert config.inter_broker_listener_name == "INSIDE"


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("PLAINTEXT:9092", "is not NAME://host:port"),
        ("PLAINTEXT://a:99999", "above 65535"),
        ("PLAINTEXT://a:1,PLAINTEXT://a:2", "twice"),
        ("", "is empty"),
    ],
)
def test_a_bad_listener_says_why(listeners: str, reason: str) -> None:
    assert reason in refusal(listeners=listeners)


def test_one_port_cannot_have_two_listeners() -> None:
    text = refusal(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9092", controller_listener_names="CONTROLLER"
    )
    assert "same port" in text


def test_clients_cannot_be_sent_to_every_interface() -> None:
    assert "cannot connect to 0.0.0.0" in refusal(listeners="PLAINTEXT://0.0.0.0:9092")
    config = BrokerConfig.of(
        {"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://me:9092"}
    )
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://me:9092"]
    assert "0.0.0.0" in refusal(advertised_listeners="PLAINTEXT://0.0.0.0:9092")
    assert "not one of listeners" in refusal(
        advertised_listeners="X://me:9092",
        listener_security_protocol_map="X:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )


def test_the_inter_broker_listener_must_exist() -> None:
    assert "not one of the listeners" in refusal(inter_broker_listener_name="OTHER")


def test_protection_that_is_not_there_is_not_promised() -> None:
    assert "a node here runs no Java" in refusal(authorizer_class_name="com.example.Authorizer")


def test_all_problems_are_told_at_once() -> None:
    text = refusal(listeners="SASL_SSL://:9092", log_retention_ms="0", log_dirs="/a,/a")
    assert len(text.splitlines()) == 3


def test_broker_values_are_validated_by_name() -> None:
    validate_broker_config("num.partitions", "3")
    with pytest.raises(InvalidConfig, match=r"did you mean num\.partitions"):
        validate_broker_config("num.partition", "3")


def test_some_keys_cannot_change_while_a_broker_runs() -> None:
    check_dynamic(["log.retention.ms"], cluster_wide=True)
    check_dynamic(["ssl.client.auth"], cluster_wide=False)
    text = r"Cannot update these configs dynamically: \[node\.id, listeners\]"
    with pytest.raises(InvalidRequest, match=text):
        check_dynamic(["node.id", "log.retention.ms", "listeners"], cluster_wide=False)
    text = r"at default cluster level, broker id must be specified: \[ssl\.client\.auth\]"
    with pytest.raises(InvalidRequest, match=text):
        check_dynamic(["ssl.client.auth"], cluster_wide=True)
