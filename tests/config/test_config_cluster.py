"""Nodes of a cluster: settings that do not fit are refused with a sentence that says what to do."""

import pytest

from penstock.config import BrokerConfig
from penstock.errors import InvalidConfig

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "h:9093,other:9093",
}
BROKER = {**COMBINED, "process.roles": "broker", "listeners": "PLAINTEXT://h:9092"}
CONTROLLER = {**COMBINED, "process.roles": "controller", "listeners": "CONTROLLER://h:9093"}
PROTOCOLS = "listener.security.protocol.map"


def refusal(settings: dict[str, str], *without: str, **more: str) -> str:
    named = {name.replace("_", "."): value for name, value in more.items()}
    kept = {name: text for name, text in settings.items() if name not in without}
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig.of({**kept, **named})
    return caught.value.message


@pytest.mark.parametrize("settings", [COMBINED, BROKER, CONTROLLER])
def test_kafkas_own_keys_are_enough(settings: dict[str, str]) -> None:
    assert not BrokerConfig.of(settings).sole_voter


@pytest.mark.parametrize("settings", [COMBINED, BROKER, CONTROLLER])
def test_one_of_several_nodes_needs_a_number(settings: dict[str, str]) -> None:
    assert "give each node its own number, e.g. node.id=1" in refusal(settings, "node.id")


def test_broker_id_is_a_number_too() -> None:
    settings = {name: text for name, text in COMBINED.items() if name != "node.id"}
    assert BrokerConfig.of({**settings, "broker.id": "7"}).node_id == 7


def test_a_role_is_named_once() -> None:
    assert "process.roles" in refusal(COMBINED, process_roles="broker,broker")


def test_voters_that_do_not_name_a_controller_are_refused() -> None:
    assert "has no node 1; it has 2, 3" in refusal(
        CONTROLLER, controller_quorum_voters="2@h:1,3@g:1"
    )


def test_voters_that_name_a_broker_are_refused() -> None:
    text = refusal(BROKER, controller_quorum_voters="1@h:1,2@g:1")
    assert "has node 1, but process.roles has no controller" in text


@pytest.mark.parametrize("address", ["0.0.0.0:9093", "[::]:9093", "h:0"])
@pytest.mark.parametrize("key", ["voters", "bootstrap.servers"])
def test_controllers_have_addresses_to_connect_to(key: str, address: str) -> None:
    text = f"1@h:9093,2@{address}" if key == "voters" else address
    told = refusal({**COMBINED, f"controller.quorum.{key}": text})
    assert f"controller.quorum.{key} has {address}, to which no node can connect" in told


def test_a_broker_needs_to_know_a_controller() -> None:
    text = refusal(BROKER, "controller.quorum.bootstrap.servers")
    assert "set controller.quorum.bootstrap.servers=host:port" in text


def test_a_broker_needs_the_name_of_the_controllers_listener() -> None:
    text = refusal(BROKER, "controller.listener.names")
    assert "e.g. controller.listener.names=CONTROLLER" in text


def test_a_broker_needs_the_protocol_of_the_controllers() -> None:
    text = refusal({**BROKER, PROTOCOLS: "PLAINTEXT:PLAINTEXT"})
    assert f"add CONTROLLER:PLAINTEXT to {PROTOCOLS}" in text


def test_an_unknown_protocol_between_brokers_is_refused() -> None:
    brokers = refusal(COMBINED, security_inter_broker_protocol="TLS")
    assert "Invalid value TLS for configuration security.inter.broker.protocol" in brokers


def test_every_controller_listener_name_has_a_listener_on_a_controller() -> None:
    text = refusal(CONTROLLER, controller_listener_names="CONTROLLER,SECOND")
    assert "none of the name SECOND; add SECOND://:9093 to listeners" in text


def test_a_controller_has_no_listener_for_clients() -> None:
    text = refusal(CONTROLLER, listeners="PLAINTEXT://h:9092,CONTROLLER://h:9093")
    assert "listeners has PLAINTEXT, which is not in controller.listener.names" in text


def test_a_broker_has_no_listener_for_controllers() -> None:
    text = refusal(BROKER, listeners="PLAINTEXT://h:9092,CONTROLLER://h:9093")
    assert "listeners has CONTROLLER, which is in controller.listener.names" in text


def test_brokers_of_a_cluster_say_which_listener_is_for_brokers() -> None:
    inside = {"listeners": "INSIDE://h:9092,CONTROLLER://h:9093"}
    inside[PROTOCOLS] = "INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
    text = refusal({**COMBINED, **inside})
    assert "set inter.broker.listener.name to one of INSIDE" in text
    named = BrokerConfig.of({**COMBINED, **inside, "inter.broker.listener.name": "INSIDE"})
    assert named.inter_broker_listener_name == "INSIDE"


def test_the_controllers_listener_is_not_for_brokers() -> None:
    text = refusal(COMBINED, inter_broker_listener_name="CONTROLLER")
    assert "which is not one of the listeners for brokers (PLAINTEXT)" in text


def test_the_listener_for_brokers_is_named_in_one_way() -> None:
    text = refusal(
        COMBINED,
        inter_broker_listener_name="PLAINTEXT",
        security_inter_broker_protocol="PLAINTEXT",
    )
    assert "set only the first" in text


def test_no_node_is_sent_to_every_interface() -> None:
    advertised = "PLAINTEXT://h:9092,CONTROLLER://0.0.0.0:9093"
    assert "cannot connect to 0.0.0.0" in refusal(COMBINED, advertised_listeners=advertised)


def test_a_controller_that_listens_everywhere_is_reached_by_its_machines_name() -> None:
    config = BrokerConfig.of(
        {
            **COMBINED,
            "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093",
            "advertised.listeners": "PLAINTEXT://h:9092",
        }
    )
    assert [str(each) for each in config.advertised_listeners] == [
        "PLAINTEXT://h:9092",
        "CONTROLLER://:9093",
    ]


def test_a_broker_may_share_the_advertised_listeners_of_its_controllers() -> None:
    config = BrokerConfig.of(
        {**BROKER, "advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093"}
    )
    assert [each.name for each in config.listeners] == ["PLAINTEXT"]


def test_the_metadata_directory_is_written_as_in_log_dirs() -> None:
    settings = {**COMBINED, "log.dirs": "/a,/b"}
    assert BrokerConfig.of({**settings, "metadata.log.dir": "/b"}).metadata_log_dir == "/b"
    assert BrokerConfig.of({**settings, "metadata.log.dir": "/c"}).metadata_log_dir == "/c"
    text = refusal({**settings, "metadata.log.dir": "/b/"})
    assert "write it in the same way: metadata.log.dir=/b" in text


def test_one_directory_is_not_named_twice_in_two_spellings() -> None:
    assert "names a directory twice" in refusal(COMBINED, log_dirs="/a,/a/")


def test_internal_topics_have_kafkas_replication() -> None:
    config = BrokerConfig.of(COMBINED)
    assert config.integer("offsets.topic.replication.factor") == 3
    assert config.integer("transaction.state.log.replication.factor") == 3
    assert config.integer("transaction.state.log.min.isr") == 2
    assert config.integer("default.replication.factor") == 1
