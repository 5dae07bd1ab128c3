"""The rules of configuration that a node gives its controller."""

import pytest

from penstock.config import BrokerConfig
from penstock.controller.config_rules import TableRules
from penstock.controller.image import BROKER, EVERY_BROKER, GROUP, TOPIC, ConfigResourceId
from penstock.errors import InvalidConfig, InvalidRequest

ORDERS = ConfigResourceId(TOPIC, "orders")
BROKER_1 = ConfigResourceId(BROKER, "1")
READERS = ConfigResourceId(GROUP, "readers")


@pytest.fixture
def rules() -> TableRules:
    return TableRules(BrokerConfig.of({"log.retention.ms": "5000"}))


def test_legal_values_pass(rules: TableRules) -> None:
    rules.validate(ORDERS, {"retention.ms": "1", "cleanup.policy": None}, {"retention.ms": "1"})
    rules.validate(EVERY_BROKER, {"log.cleaner.threads": "2"}, {"log.cleaner.threads": "2"})
    rules.validate(READERS, {"consumer.session.timeout.ms": "50000"}, {"from.the.future": "x"})
    rules.validate(READERS, {"from.the.future": None}, {})


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        (ORDERS, "retention.ms", "x"),
        (ORDERS, "no.such.key", "1"),
        (EVERY_BROKER, "no.such.key", "1"),
        (EVERY_BROKER, "log.dirs", "/elsewhere"),
        (EVERY_BROKER, "group.consumer.assignment.interval.ms", "15001"),
        (EVERY_BROKER, "max.connections", "0"),
        (BROKER_1, "max.connections", "0"),
        (BROKER_1, "listener.name.plaintext.max.connections", "0"),
        (BROKER_1, "max.connection.creation.rate", "0"),
        (READERS, "no.such.key", "1"),
        (READERS, "consumer.session.timeout.ms", "x"),
        (READERS, "consumer.session.timeout.ms", "44999"),
    ],
)
def test_others_do_not(
    rules: TableRules, resource: ConfigResourceId, name: str, value: str
) -> None:
    with pytest.raises((InvalidConfig, InvalidRequest)):
        rules.validate(resource, {name: value}, {name: value})


def test_values_must_fit_together(rules: TableRules) -> None:
    after = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}
    with pytest.raises(InvalidConfig):
        rules.validate(ORDERS, {"max.compaction.lag.ms": "5"}, after)


def test_a_groups_value_must_fit_to_what_is_set_already() -> None:
    rules = TableRules(BrokerConfig.of({"group.consumer.min.session.timeout.ms": "10000"}))
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    with pytest.raises(InvalidConfig, match="must be above"):
        rules.validate(READERS, {heartbeat: "12000"}, {session: "11000", heartbeat: "12000"})


def test_what_another_release_has_set_forbids_nothing(rules: TableRules) -> None:
    rules.validate(ORDERS, {"retention.ms": "1"}, {"retention.ms": "1", "from.the.future": "x"})


def test_lists_and_their_defaults(rules: TableRules) -> None:
    assert rules.is_list(TOPIC, "cleanup.policy")
    assert not rules.is_list(TOPIC, "retention.ms")
    assert not rules.is_list(BROKER, "no.such.key")
    assert not rules.is_list(GROUP, "group.consumer.assignors")
    assert rules.default(GROUP, "consumer.session.timeout.ms") == "45000"
    assert rules.default(TOPIC, "cleanup.policy") == "delete"


def test_effective_values_say_where_they_come_from(rules: TableRules) -> None:
    entries = rules.effective_topic_configs(
        {"cleanup.policy": "compact"}, {"min.insync.replicas": "2"}, {}
    )
    found = {entry.name: (entry.value, entry.source) for entry in entries}
    assert found["cleanup.policy"] == ("compact", 1)
    assert found["min.insync.replicas"] == ("2", 3)
    assert found["retention.ms"] == ("5000", 4)
    assert found["segment.bytes"][1] == 5
    assert [entry.name for entry in entries] == sorted(found)
