"""The files in config/: each is valid, and those of one cluster fit together."""

import re
from pathlib import Path

import pytest

from penstock.config import BrokerConfig, ConfigText, load

SAMPLES = Path(__file__).parent.parent.parent / "config"
NODES = ("server", "controller", "broker", "three/node-1", "three/node-2", "three/node-3")
THREE = NODES[3:]
TOPICS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)


def text_of(name: str) -> str:
    return (SAMPLES / f"{name}.properties").read_text()


def loaded(name: str) -> BrokerConfig:
    return load([ConfigText(name, text_of(name))]).config


@pytest.mark.parametrize("name", NODES)
def test_a_sample_is_valid_without_a_warning(name: str) -> None:
    assert load([ConfigText(name, text_of(name))]).warnings == ()


@pytest.mark.parametrize("name", THREE)
def test_each_of_the_three_is_broker_and_controller_and_no_quorum_of_its_own(name: str) -> None:
    config = loaded(name)
    assert config.is_broker
    assert config.is_controller
    assert not config.sole_voter


def test_the_three_name_each_other() -> None:
    configs = [loaded(name) for name in THREE]
    controllers = [str(each.port) for config in configs for each in config.controller_listeners]
    for config in configs:
        assert [str(each.port) for each in config.bootstrap_controllers] == controllers
    assert [config.node_id for config in configs] == [1, 2, 3]


def test_the_three_share_no_port_and_no_directory() -> None:
    configs = [loaded(name) for name in THREE]
    ports = [each.port for config in configs for each in config.listeners]
    ports += [config.metrics_listener.port for config in configs if config.metrics_listener]
    assert len(set(ports)) == len(ports) == 9
    assert len({config.log_dirs for config in configs}) == 3


def test_the_format_command_of_the_three_names_their_controllers() -> None:
    comment = text_of(THREE[0])
    for name in THREE:
        config = loaded(name)
        (listener,) = config.controller_listeners
        assert f"{config.node_id}@{listener.host}:{listener.port}:" in comment


def test_the_guide_to_clusters_names_the_same_controllers() -> None:
    comment = text_of(THREE[0])
    guide = (SAMPLES.parent / "docs" / "guides" / "cluster.md").read_text()
    named = re.findall(r"\d@127\.0\.0\.1:\d+:[\w-]{22}", comment)
    assert len(named) == 3
    assert re.findall(r"\d@127\.0\.0\.1:\d+:[\w-]{22}", guide) == named


def test_the_broker_finds_the_controller() -> None:
    controller, broker = loaded("controller"), loaded("broker")
    ports = [each.port for each in controller.controller_listeners]
    assert [each.port for each in broker.bootstrap_controllers] == ports
    assert broker.controller_listener_names == controller.controller_listener_names
    assert broker.node_id != controller.node_id


def test_internal_topics_of_one_broker_have_one_replica() -> None:
    for name in ("server", "broker"):
        assert [loaded(name).integer(key) for key in TOPICS] == [1, 1, 1]


@pytest.mark.parametrize("name", THREE)
def test_topics_of_the_three_have_three_replicas_and_need_two(name: str) -> None:
    config = loaded(name)
    assert [config.integer(key) for key in TOPICS] == [3, 3, 2]
    assert config.integer("default.replication.factor") == 3
    assert config.integer("min.insync.replicas") == 2
