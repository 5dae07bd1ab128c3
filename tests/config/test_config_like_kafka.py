"""The tables against Apache Kafka 4.3.1: kafka_4_3_keys.tsv is what its own classes define."""

import csv
from pathlib import Path

import pytest

from penstock.config.table import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.config.values import to_text

with (Path(__file__).parent / "kafka_4_3_keys.tsv").open() as _file:
    ROWS = list(csv.DictReader(_file, delimiter="\t"))

TABLES = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS}

# Keys whose default differs, and why.
OWN_DEFAULTS = {
    "transaction.two.phase.commit.enable": "two-phase commit is on here",
    "metric.reporters": "names a Java class",
    "principal.builder.class": "names a Java class",
    "group.share.persister.class.name": "names a Java class",
    "remote.log.metadata.manager.class.name": "names a Java class",
    "sasl.oauthbearer.jwt.retriever.class": "names a Java class",
    "sasl.oauthbearer.jwt.validator.class": "names a Java class",
}
# Keys that Kafka's definition does not have: set only while brokers run, of old, or our own.
OWN_KEYS = {
    "allow.everyone.if.no.acl.found",  # Kafka's authorizer reads these two for itself
    "super.users",
    "audit.grants",
    "insecure.listeners",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "reserved.broker.max.id",
    "log.disk.reserve.bytes",
    "log.dirs.group.access",
    "log.durability",
    "metrics.listener",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['scope']}-{row['name']}")
def test_a_key_has_kafkas_type_default_and_mode(row: dict[str, str]) -> None:
    key = TABLES[row["scope"]][row["name"]]
    assert key.type.name == row["type"]
    if row["scope"] == "broker":
        assert key.mode.value == row["mode"]
    if row["name"] not in OWN_DEFAULTS:
        text = to_text(key.default)
        assert ("(none)" if text is None else text) == row["default"]


def test_there_are_no_other_keys_than_kafkas_and_the_named_ones() -> None:
    theirs = {scope: {row["name"] for row in ROWS if row["scope"] == scope} for scope in TABLES}
    assert set(BROKER_KEYS) - theirs["broker"] == OWN_KEYS
    assert theirs["topic"] == set(TOPIC_KEYS)
    assert theirs["group"] == set(GROUP_KEYS)
