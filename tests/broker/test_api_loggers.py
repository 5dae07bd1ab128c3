"""Log levels of a running broker: DescribeConfigs and IncrementalAlterConfigs of BROKER_LOGGER."""

import logging
from collections.abc import Iterator

import pytest
from api_asking import Asker, new_topic, versions

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k44_incremental_alter_configs as k44

pytest_plugins = ["api_fixtures"]

TOPIC, BROKER_LOGGER = 2, 8
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
LOGGER_SOURCE = 6
NAME = "penstock.listener"


@pytest.fixture(autouse=True)
def _levels_as_before() -> Iterator[None]:
    names = ("penstock", NAME, "penstock.node")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def _levels(asker: Asker, *names: str) -> dict[str, str | None]:
    wanted = k32.DescribeConfigsResource(
        resource_type=BROKER_LOGGER, resource_name="1", configuration_keys=list(names) or None
    )
    [one] = asker.ask(k32.DescribeConfigsRequest(resources=[wanted]), 4).results
    assert one.error_code == 0
    assert {each.config_source for each in one.configs} <= {LOGGER_SOURCE}
    return {each.name: each.value for each in one.configs}


Change = tuple[str, int, str | None]


def _loggers(*changes: Change, broker: str = "1") -> k44.AlterConfigsResource:
    configs = [
        k44.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return k44.AlterConfigsResource(
        resource_type=BROKER_LOGGER, resource_name=broker, configs=configs
    )


def _alter(
    asker: Asker, *changes: Change, version: int = 1, validate_only: bool = False, broker: str = "1"
) -> tuple[int, str | None]:
    request = k44.IncrementalAlterConfigsRequest(
        resources=[_loggers(*changes, broker=broker)], validate_only=validate_only
    )
    [one] = asker.ask(request, version).responses
    assert (one.resource_type, one.resource_name) == (BROKER_LOGGER, broker)
    return one.error_code, one.error_message


@pytest.mark.parametrize("version", versions(44))
@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("TRACE", 5),
        ("DEBUG", logging.DEBUG),
        ("INFO", logging.INFO),
        ("WARN", logging.WARNING),
        ("ERROR", logging.ERROR),
        ("FATAL", logging.CRITICAL),
    ],
)
def test_a_level_is_set_and_takes_effect(
    asker: Asker, version: int, word: str, number: int
) -> None:
    assert _alter(asker, (NAME, SET, word), version=version) == (0, None)
    assert logging.getLogger(NAME).getEffectiveLevel() == number
    assert _levels(asker, NAME) == {NAME: word}


def test_a_logger_without_a_level_of_its_own_follows_the_root(asker: Asker) -> None:
    assert _alter(asker, (NAME, SET, "TRACE"), ("root", SET, "ERROR"))[0] == 0
    assert _levels(asker, NAME, "root") == {NAME: "TRACE", "root": "ERROR"}
    assert _alter(asker, (NAME, DELETE, None))[0] == 0
    assert _levels(asker, NAME, "root") == {NAME: "ERROR", "root": "ERROR"}


def test_the_root_is_the_brokers_and_not_the_applications(asker: Asker) -> None:
    before = logging.root.level
    assert _alter(asker, ("root", SET, "TRACE"))[0] == 0
    assert logging.root.level == before
    assert logging.getLogger("penstock").level == 5


def test_every_logger_of_the_broker_is_listed_and_no_other(asker: Asker) -> None:
    logging.getLogger("application.part")
    told = _levels(asker)
    assert {"root", NAME, "penstock.node", "penstock.connections"} <= set(told)
    assert all(name == "root" or name.startswith("penstock.") for name in told)
    assert set(told.values()) <= {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}


@pytest.mark.parametrize(
    ("change", "error", "part"),
    [
        ((NAME, SET, "LOUD"), errors.InvalidConfig, "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        ((NAME, SET, "debug"), errors.InvalidConfig, "debug"),
        ((NAME, SET, None), errors.InvalidRequest, NAME),
        (("penstock.nowhere", SET, "INFO"), errors.InvalidConfig, "penstock.nowhere"),
        (("penstock.nowhere", DELETE, None), errors.InvalidConfig, "penstock.nowhere"),
        (("root", DELETE, None), errors.InvalidRequest, "root"),
        ((NAME, APPEND, "INFO"), errors.InvalidRequest, "APPEND"),
        ((NAME, SUBTRACT, "INFO"), errors.InvalidRequest, "SUBTRACT"),
        ((NAME, 9, "INFO"), errors.InvalidRequest, "9"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_refused(
    asker: Asker, change: Change, error: type[errors.KafkaError], part: str
) -> None:
    code, message = _alter(asker, change)
    assert code == error.code
    assert message is not None
    assert part in message


def test_one_bad_change_keeps_the_others_from_being_made(asker: Asker) -> None:
    before = _levels(asker)
    assert _alter(asker, (NAME, SET, "TRACE"), ("penstock.node", SET, "x"))[0] != 0
    assert _levels(asker) == before


def test_a_key_twice_is_refused(asker: Asker) -> None:
    code, _ = _alter(asker, (NAME, SET, "INFO"), (NAME, SET, "WARN"))
    assert code == errors.InvalidRequest.code


def test_only_trying_changes_nothing(asker: Asker) -> None:
    before = _levels(asker, NAME)
    assert _alter(asker, (NAME, SET, "TRACE"), validate_only=True)[0] == 0
    assert _levels(asker, NAME) == before


@pytest.mark.parametrize("broker", ["2", "", "zork"])
def test_another_brokers_levels_are_its_own(asker: Asker, broker: str) -> None:
    code, _ = _alter(asker, (NAME, SET, "INFO"), broker=broker)
    assert code == errors.InvalidRequest.code


def test_levels_and_settings_in_one_request_are_answered_in_their_order(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    topic = new_topic(penstock_cluster)
    setting = k44.AlterableConfig(name="retention.ms", config_operation=SET, value="5000")
    missing = k44.AlterConfigsResource(
        resource_type=TOPIC, resource_name="nowhere", configs=[setting]
    )
    there = k44.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[setting])
    resources = [missing, _loggers((NAME, SET, "FATAL")), there]
    answer = asker.ask(k44.IncrementalAlterConfigsRequest(resources=resources), 1)
    told = [(each.resource_name, each.error_code) for each in answer.responses]
    assert told == [("nowhere", errors.UnknownTopicOrPartition.code), ("1", 0), (topic, 0)]
    assert _levels(asker, NAME) == {NAME: "FATAL"}


def test_a_resource_twice_is_refused_twice(asker: Asker) -> None:
    twice = [_loggers((NAME, SET, "FATAL")), _loggers((NAME, SET, "INFO"))]
    answer = asker.ask(k44.IncrementalAlterConfigsRequest(resources=twice), 1)
    assert [each.error_code for each in answer.responses] == [errors.InvalidRequest.code] * 2


@pytest.mark.parametrize("version", versions(33))
def test_the_old_call_cannot_change_levels_and_names_the_one_that_can(
    asker: Asker, version: int
) -> None:
    wanted = k33.AlterConfigsResource(
        resource_type=BROKER_LOGGER,
        resource_name="1",
        configs=[k33.AlterableConfig(name=NAME, value="INFO")],
    )
    [one] = asker.ask(k33.AlterConfigsRequest(resources=[wanted]), version).responses
    assert one.error_code == errors.InvalidRequest.code
    assert "IncrementalAlterConfigs" in one.error_message
