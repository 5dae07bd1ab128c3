"""The tables themselves, and the values of their keys."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import keys_client_metrics, keys_group, keys_topic, table
from penstock.config.key import Effect, Key, ValueType
from penstock.config.table import (
    BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    find_broker_key,
    nearest,
    removed_key,
)
from penstock.config.values import parse, to_text
from penstock.errors import InvalidConfig
from tools.configuration_reference import reference

EVERY_KEY = [*BROKER_KEYS.values(), *TOPIC_KEYS.values(), *GROUP_KEYS.values()]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_a_default_passes_its_own_checks(key: Key) -> None:
    text = to_text(key.default)
    if text is not None:
        assert parse(key, text) == key.default


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_synonyms_are_broker_keys(key: Key) -> None:
    assert all(name in BROKER_KEYS for name, _ in key.synonyms)


def test_a_key_that_has_an_effect_says_which() -> None:
    assert [key.name for key in EVERY_KEY if key.effect is Effect.NOW and not key.about] == []


def test_a_key_without_effect_says_so() -> None:
    assert "without effect" in BROKER_KEYS["num.io.threads"].documentation
    assert "without effect" not in BROKER_KEYS["log.dirs"].documentation


def test_no_key_is_in_two_tables() -> None:
    modules = [m for name, m in vars(table).items() if name.startswith("keys_")]
    of_brokers = [m for m in modules if m not in (keys_topic, keys_group, keys_client_metrics)]
    names = [key.name for m in of_brokers for key in m.KEYS]
    assert len(names) == len(set(names)) == len(BROKER_KEYS)


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run python -m tools.configuration_reference"


def test_the_reference_command_prints_the_page() -> None:
    command = [sys.executable, "-m", "tools.configuration_reference"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == reference()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("num.partitions", "three", "Not a number of type INT"),
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "3000000000", "to 2147483647"),
        ("num.partitions", "1_000", "Not a number of type INT"),
        ("delete.topic.enable", "yes", "true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "Not a number of type DOUBLE"),
        ("compression.type", "brotli", "uncompressed, zstd"),
        ("compression.gzip.level", "0", "1 to 9, or -1"),
        ("log.cleanup.policy", "shred", "one of: compact, delete"),
        ("log.cleanup.policy", "delete,delete", "twice"),
        ("process.roles", "zookeeper", "broker, controller"),
        ("log.segment.bytes", "1000", "at least 1048576"),
    ],
)
def test_a_bad_value_says_key_value_and_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse(BROKER_KEYS[name], text)
    assert name in caught.value.message
    assert text in caught.value.message
    assert reason in caught.value.message


def test_a_bad_secret_is_not_shown() -> None:
    key = Key("x", ValueType.PASSWORD, None, allowed=_Never())
    with pytest.raises(InvalidConfig) as caught:
        parse(key, "hunter2")
    assert "hunter2" not in caught.value.message


class _Never:
    def refusal(self, _value: object) -> str:
        return "never"

    def text(self) -> str:
        return "nothing"


def test_values_are_trimmed_and_typed() -> None:
    assert parse(BROKER_KEYS["log.dirs"], " /a , /b ") == ("/a", "/b")
    assert parse(BROKER_KEYS["delete.topic.enable"], " TRUE ") is True
    assert parse(BROKER_KEYS["num.partitions"], "+3") == 3
    assert parse(TOPIC_KEYS["cleanup.policy"], "") == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.0001, "1.0E-4"),
        (100.0, "100.0"),
    ],
)
def test_doubles_are_printed_as_java_prints_them(value: float, text: str) -> None:
    assert to_text(value) == text


@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False))
def test_a_printed_double_is_the_same_double(value: float) -> None:
    text = to_text(value)
    assert text is not None
    assert float(text) == value


def test_the_nearest_key_is_found() -> None:
    assert nearest("log.retention.hour", BROKER_KEYS) == "log.retention.hours"
    assert nearest("num_partitions", BROKER_KEYS) == "num.partitions"
    assert nearest("qqqqqq", BROKER_KEYS) is None


def test_a_key_narrowed_to_a_listener_is_known() -> None:
    assert find_broker_key("listener.name.internal.ssl.keystore.location") is not None
    found = find_broker_key("listener.name.x.scram-sha-512.sasl.jaas.config")
    assert found is BROKER_KEYS["sasl.jaas.config"]
    assert find_broker_key("listener.name.x.nothing") is None


def test_every_zookeeper_key_stops_with_a_way_out() -> None:
    found = removed_key("zookeeper.session.timeout.ms")
    assert found is not None
    assert found.stops
    assert "Remove" in found.way_out
