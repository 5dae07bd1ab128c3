"""AlterConfigs and IncrementalAlterConfigs."""

import pytest
from controller_bench import ORDERS, Bench, alter, alter_message

from penstock import errors
from penstock.controller.configs import APPEND, DELETE, SET, SUBTRACT
from penstock.controller.image import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigResourceId,
)
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k44_incremental_alter_configs as k44

KEY_SET = ("log.cleaner.threads", SET, "2")


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.create("orders")
    return bench


def test_set_and_delete(bench: Bench) -> None:
    assert alter(bench, ORDERS, ("retention.ms", SET, "5")) == 0
    assert bench.image.config(ORDERS) == {"retention.ms": "5"}
    assert bench.steps[-1].delta.configs == (ORDERS,)
    assert alter(bench, ORDERS, ("retention.ms", DELETE, None)) == 0
    assert ORDERS not in bench.image.configs


def test_append_begins_with_the_default_and_adds_nothing_twice(bench: Bench) -> None:
    assert alter(bench, ORDERS, ("cleanup.policy", APPEND, "compact,delete")) == 0
    assert bench.image.config(ORDERS)["cleanup.policy"] == "delete,compact"
    assert alter(bench, ORDERS, ("cleanup.policy", SUBTRACT, "delete")) == 0
    assert bench.image.config(ORDERS)["cleanup.policy"] == "compact"


def test_only_lists_can_be_appended_to(bench: Bench) -> None:
    assert alter(bench, ORDERS, ("retention.ms", APPEND, "5")) == errors.InvalidConfig.code


def test_validate_only_changes_nothing(bench: Bench) -> None:
    assert alter(bench, ORDERS, ("retention.ms", SET, "5"), validate_only=True) == 0
    assert bench.image.config(ORDERS) == {}
    bad = alter(bench, ORDERS, ("retention.ms", SET, "x"), validate_only=True)
    assert bad == errors.InvalidConfig.code


def test_the_same_value_again_writes_nothing_for_a_topic(bench: Bench) -> None:
    alter(bench, ORDERS, ("retention.ms", SET, "5"))
    offset = bench.offset
    alter(bench, ORDERS, ("retention.ms", SET, "5"))
    assert bench.offset == offset


def test_the_same_value_again_reaches_a_broker(bench: Bench) -> None:
    one = ConfigResourceId(BROKER, "1")
    alter(bench, one, ("log.cleaner.threads", SET, "2"))
    offset = bench.offset
    alter(bench, one, ("log.cleaner.threads", SET, "2"))
    assert bench.offset == offset + 1


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResourceId(TOPIC, "nothing"), errors.UnknownTopicOrPartition.code),
        (ConfigResourceId(TOPIC, "a b"), errors.InvalidTopic.code),
        (ConfigResourceId(BROKER, "x"), errors.InvalidRequest.code),
        (ConfigResourceId(BROKER, "7"), errors.InvalidRequest.code),
        (ConfigResourceId(BROKER_LOGGER, "1"), errors.InvalidRequest.code),
        (ConfigResourceId(99, "x"), errors.InvalidRequest.code),
        (ConfigResourceId(GROUP, ""), errors.InvalidRequest.code),
        (ConfigResourceId(CLIENT_METRICS, ""), errors.InvalidRequest.code),
        (ConfigResourceId(GROUP, "g"), 0),
        (ConfigResourceId(CLIENT_METRICS, "m"), 0),
        (ConfigResourceId(BROKER, ""), 0),
    ],
)
def test_resources_are_checked(bench: Bench, resource: ConfigResourceId, code: int) -> None:
    assert alter(bench, resource, ("log.cleaner.threads", SET, "2")) == code


@pytest.mark.parametrize(
    ("resource", "change", "sentence"),
    [
        (ConfigResourceId(BROKER, "7"), KEY_SET, "Unexpected broker id, expected 1"),
        (ConfigResourceId(BROKER, "x"), KEY_SET, "Node id must be an integer, but it is: x"),
        (ConfigResourceId(GROUP, ""), KEY_SET, "Default group resources are not allowed."),
        (ConfigResourceId(CLIENT_METRICS, ""), KEY_SET, "Subscription name can't be empty"),
        (ORDERS, ("retention.ms", 9, "1"), "Unknown operations type 9"),
        (ORDERS, ("retention.ms", APPEND, "1"), "Can't APPEND to key retention.ms because its"),
        (
            ConfigResourceId(BROKER, ""),
            ("log.cleaner.threads", SUBTRACT, "1"),
            "Config value subtract is not allowed for config key: log.cleaner.threads",
        ),
    ],
)
def test_a_change_is_refused_with_kafkas_sentence(
    bench: Bench, resource: ConfigResourceId, change: tuple[str, int, str], sentence: str
) -> None:
    assert alter_message(bench, resource, change).startswith(sentence)


def test_each_resource_and_each_key_once(bench: Bench) -> None:
    twice = alter(bench, ORDERS, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert twice == errors.InvalidRequest.code
    resource = k44.AlterConfigsResource(resource_type=TOPIC, resource_name="orders")
    request = k44.IncrementalAlterConfigsRequest(resources=[resource, resource])
    codes = [response.error_code for response in bench.ask(request, 1).responses]
    assert codes == [errors.InvalidRequest.code] * 2


def test_unknown_operations_and_missing_values(bench: Bench) -> None:
    assert alter(bench, ORDERS, ("retention.ms", 9, "1")) == errors.InvalidRequest.code
    assert alter(bench, ORDERS, ("retention.ms", SET, None)) == errors.InvalidRequest.code


def test_min_isr_is_shared_while_eligible_leaders_are_in_use(bench: Bench) -> None:
    key = "min.insync.replicas"
    assert bench.image.config(ConfigResourceId(BROKER, "")) == {key: "1"}
    assert alter(bench, ConfigResourceId(BROKER, "1"), (key, SET, "2")) == errors.InvalidConfig.code
    assert (
        alter(bench, ConfigResourceId(BROKER, ""), (key, DELETE, None)) == errors.InvalidConfig.code
    )
    assert alter(bench, ConfigResourceId(BROKER, ""), (key, SET, "2")) == 0


def test_the_old_call_replaces_everything(bench: Bench) -> None:
    alter(bench, ORDERS, ("retention.ms", SET, "5"), ("cleanup.policy", SET, "compact"))
    wanted = k33.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="orders",
        configs=[k33.AlterableConfig(name="retention.ms", value="6")],
    )
    reply = bench.ask(k33.AlterConfigsRequest(resources=[wanted]), 2)
    assert reply.responses[0].error_code == 0
    assert bench.image.config(ORDERS) == {"retention.ms": "6"}


@pytest.mark.parametrize(
    ("resource", "cleared"),
    [(ORDERS, ["orders"]), (ConfigResourceId(BROKER, ""), ["orders", "other"])],
)
def test_a_change_of_min_isr_clears_the_eligible_leaders_it_concerns(
    resource: ConfigResourceId, cleared: list[str]
) -> None:
    bench = Bench((1, 2, 3), min_insync_replicas=2)
    for topic in ("orders", "other"):
        bench.create(topic, factor=3)
    for broker_id in (2, 3):
        bench.beat(broker_id, bench.image.brokers[broker_id].epoch, want_fence=True)
    topics = bench.image.topics
    assert all(topics[each].partitions[0].eligible_leaders for each in ("orders", "other"))
    assert alter(bench, resource, ("min.insync.replicas", SET, "3")) == 0
    topics = bench.image.topics
    assert [each for each in topics if not topics[each].partitions[0].eligible_leaders] == cleared


def test_another_change_leaves_the_eligible_leaders_alone() -> None:
    bench = Bench((1, 2, 3), min_insync_replicas=2)
    bench.create("orders", factor=3)
    for broker_id in (2, 3):
        bench.beat(broker_id, bench.image.brokers[broker_id].epoch, want_fence=True)
    assert alter(bench, ORDERS, ("retention.ms", SET, "5")) == 0
    assert bench.image.topics["orders"].partitions[0].eligible_leaders
