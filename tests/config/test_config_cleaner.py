"""log.cleaner.*: values that would stop compaction, or let it burn the disk, are refused."""

import pytest

from penstock.config.broker import BrokerConfig
from penstock.config.check import broker_problems, validate_broker_config
from penstock.controller.config_rules import TableRules
from penstock.controller.image import BROKER, EVERY_BROKER, ConfigResourceId
from penstock.errors import InvalidConfig, InvalidRequest

MEBIBYTE = 1024 * 1024
REFUSED = [
    ("log.cleaner.threads", "0", "at least 1"),
    ("log.cleaner.threads", "-1", "at least 1"),
    ("log.cleaner.io.max.bytes.per.second", "0", "at least 1"),
    ("log.cleaner.io.max.bytes.per.second", "-5", "at least 1"),
    ("log.cleaner.io.max.bytes.per.second", "0.5", "at least 1"),
    ("log.cleaner.io.buffer.load.factor", "0", "0.01 to 1"),
    ("log.cleaner.io.buffer.load.factor", "-1", "0.01 to 1"),
    ("log.cleaner.io.buffer.load.factor", "5", "0.01 to 1"),
    ("log.cleaner.dedupe.buffer.size", "1", "at least 1048576"),
    ("log.cleaner.dedupe.buffer.size", "-1", "at least 1048576"),
]


@pytest.mark.parametrize(("name", "text", "why"), REFUSED)
def test_what_cannot_work_is_refused_while_a_node_runs(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name}.*{why}"):
        validate_broker_config(name, text)


@pytest.mark.parametrize(("name", "text", "why"), REFUSED)
def test_what_cannot_work_is_refused_at_a_start(name: str, text: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name}.*{why}"):
        BrokerConfig.of({"node.id": "1", name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.cleaner.threads", "1"),
        ("log.cleaner.io.max.bytes.per.second", "1"),
        ("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308"),
        ("log.cleaner.io.buffer.load.factor", "1"),
        ("log.cleaner.dedupe.buffer.size", str(MEBIBYTE)),
    ],
)
def test_the_edges_are_allowed(name: str, text: str) -> None:
    validate_broker_config(name, text)


def test_a_start_is_refused_with_too_little_memory_per_thread() -> None:
    config = BrokerConfig.of({})
    settings = {"log.cleaner.dedupe.buffer.size": str(3 * MEBIBYTE), "log.cleaner.threads": "4"}
    assert broker_problems(config.with_dynamic({}, {})) == []
    (problem,) = broker_problems(config.with_dynamic(settings, {}))
    assert "log.cleaner.dedupe.buffer.size (3145728)" in problem.text
    assert "1048576 bytes for each of log.cleaner.threads (4)" in problem.text


def _set(resource: ConfigResourceId, **changes: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in changes.items()}
    TableRules(BrokerConfig.of({})).validate(resource, dict(dotted), dotted)


@pytest.mark.parametrize("resource", [EVERY_BROKER, ConfigResourceId(BROKER, "1")])
def test_a_change_that_leaves_a_thread_too_little_memory_is_refused(
    resource: ConfigResourceId,
) -> None:
    _set(resource, log_cleaner_threads="128")
    with pytest.raises(InvalidRequest, match=r"log\.cleaner\.threads"):
        _set(resource, log_cleaner_threads="129")
    _set(resource, log_cleaner_threads="129", log_cleaner_dedupe_buffer_size="200000000")


def test_a_change_of_something_else_is_not_blamed_for_the_cleaner() -> None:
    rules = TableRules(BrokerConfig.of({}))
    after = {"log.cleaner.threads": "500", "log.cleaner.backoff.ms": "5"}
    rules.validate(EVERY_BROKER, {"log.cleaner.backoff.ms": "5"}, after)
