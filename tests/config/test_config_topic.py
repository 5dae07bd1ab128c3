"""A topic's values: its own, its broker's, and what may be set."""

import re

import pytest

from penstock.config import (
    TOPIC_KEYS,
    BrokerConfig,
    ConfigSource,
    Synonym,
    describe_topic,
    topic_config,
    validate_topic_config,
    validate_topic_overrides,
)
from penstock.config.values import to_text
from penstock.errors import InvalidConfig

DEFAULTS = BrokerConfig.of({})


@pytest.mark.parametrize("name", sorted(TOPIC_KEYS))
def test_without_settings_a_topic_has_its_keys_default(name: str) -> None:
    assert topic_config({}, DEFAULTS).get(name) == TOPIC_KEYS[name].default


def test_an_override_comes_before_the_broker() -> None:
    broker = BrokerConfig.of({"log.retention.hours": "1"})
    assert topic_config({}, broker).get("retention.ms") == 3_600_000
    topic = topic_config({"retention.ms": " 5 "}, broker)
    assert topic.integer("retention.ms") == 5
    assert topic.source("retention.ms") is ConfigSource.TOPIC
    assert topic.synonyms("retention.ms") == (
        Synonym("retention.ms", "5", ConfigSource.TOPIC),
        Synonym("log.retention.hours", "1", ConfigSource.STATIC_BROKER),
    )


def test_a_topic_follows_a_dynamic_change_of_its_broker() -> None:
    broker = DEFAULTS.with_dynamic({}, {"log.segment.bytes": "2000000"})
    topic = topic_config({}, broker)
    assert topic.segment_bytes == 2_000_000
    assert topic.source("segment.bytes") is ConfigSource.DYNAMIC_DEFAULT_BROKER


def test_tests_may_ask_for_small_segments() -> None:
    topic = topic_config({"internal.segment.bytes": "500"}, DEFAULTS)
    assert topic.segment_bytes == 500
    assert "internal.segment.bytes" in {row.name for row in describe_topic(topic)}


def test_an_override_of_another_release_does_not_stop_a_node() -> None:
    topic = topic_config({"no.such.key": "1", "segment.bytes": "x"}, DEFAULTS)
    assert topic.segment_bytes == 1 << 30
    assert len(topic.ignored) == 2


def test_describe_has_every_key_as_kafka_prints_it() -> None:
    rows = {row.name: row for row in describe_topic(topic_config({}, DEFAULTS))}
    assert set(rows) == set(TOPIC_KEYS) - {"internal.segment.bytes"}
    assert rows["cleanup.policy"].value == "delete"
    assert rows["preallocate"].value == "false"
    assert rows["flush.ms"].value == "9223372036854775807"
    assert rows["min.cleanable.dirty.ratio"].value == to_text(0.5)
    assert not any(row.read_only for row in rows.values())
    assert all(row.source == 5 for row in rows.values())


def test_an_unknown_topic_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidConfig, match=r"Unknown topic config name: retention\.mss.*mean"):
        validate_topic_config("retention.mss", "1")


@pytest.mark.parametrize(
    ("broker_key", "topic_key"),
    [
        ("log.retention.ms", "retention.ms"),
        ("log.retention.hours", "retention.ms"),
        ("message.max.bytes", "max.message.bytes"),
    ],
)
def test_a_broker_key_on_a_topic_is_refused_with_the_topics_name_of_it(
    broker_key: str, topic_key: str
) -> None:
    with pytest.raises(InvalidConfig, match=rf"did you mean {re.escape(topic_key)}\?"):
        validate_topic_config(broker_key, "1000")


def test_a_bad_topic_value_says_why() -> None:
    with pytest.raises(
        InvalidConfig, match=r"for configuration retention\.ms: Value must be at least -1"
    ):
        validate_topic_config("retention.ms", "-2")


def test_values_that_do_not_go_together_are_refused() -> None:
    validate_topic_overrides({"cleanup.policy": "compact,delete"}, DEFAULTS)
    with pytest.raises(InvalidConfig, match=r"\(5\) > max.compaction.lag.ms \(4\)"):
        validate_topic_overrides(
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, DEFAULTS
        )
    with pytest.raises(InvalidConfig, match="Tiered"):
        validate_topic_overrides({"remote.storage.enable": "true"}, DEFAULTS)


@pytest.mark.parametrize("value", ["*", "0:1,1:2", ""])
def test_throttled_replicas_are_pairs_or_all(value: str) -> None:
    validate_topic_config("leader.replication.throttled.replicas", value)


def test_throttled_replicas_refuse_anything_else() -> None:
    with pytest.raises(InvalidConfig, match="pairs"):
        validate_topic_config("leader.replication.throttled.replicas", "0:a")
