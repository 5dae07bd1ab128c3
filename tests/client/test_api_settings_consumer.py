"""A consumer's settings mean what they mean to Kafka: librdkafka understood what was said."""

from typing import Any

import pytest
from confluent_kafka import Consumer
from hypothesis import given as given_by
from hypothesis import strategies as st
from librdkafka_told import NOWHERE, told

from penstock.client.settings import ConsumerSettings, SettingRefused, consumer_settings
from penstock.client.settings.consumer import duration_ms

JAVA = "org.apache.kafka.clients.consumer."


def settings(given: dict[str, Any] | None = None) -> ConsumerSettings:
    return consumer_settings({"group.id": "g", **(given or {})}, bootstrap=NOWHERE)


def test_the_defaults_are_kafkas(capfd: pytest.CaptureFixture[str]) -> None:
    said = settings()
    assert said.auto_commit
    assert (said.auto_commit_interval_ms, said.poll_records_max) == (5_000, 500)
    assert (said.api_timeout_ms, said.offset_reset) == (60_000, "latest")
    assert (said.handler_timeout_ms, said.revoke_timeout_ms) == (600_000, 30_000)
    assert (said.isolation, said.excludes_internal_topics) == ("read_uncommitted", True)
    assert said.ignored == ()
    understood = told(capfd, Consumer, said.rdkafka)
    assert understood["isolation.level"] == "read_uncommitted"
    assert understood["check.crcs"] == "true"
    assert understood["allow.auto.create.topics"] == "true"
    assert understood["enable.auto.offset.store"] == "false"
    assert understood["group.id"] == "g"


MEANINGS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"auto.offset.reset": "earliest"}, {"auto.offset.reset": "smallest"}),
    ({"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
    ({"auto.offset.reset": "by_duration:PT1H"}, {"auto.offset.reset": "error"}),
    ({"fetch.min.bytes": 1000}, {"fetch.min.bytes": "1000"}),
    ({"fetch.max.wait.ms": 100}, {"fetch.wait.max.ms": "100"}),
    ({"fetch.max.bytes": 2_000_000}, {"fetch.max.bytes": "2000000"}),
    ({"fetch.max.bytes": 5000}, {"fetch.max.bytes": "5000", "message.max.bytes": "5000"}),
    ({"max.partition.fetch.bytes": 9}, {"fetch.message.max.bytes": "9"}),
    ({"session.timeout.ms": 10_000}, {"session.timeout.ms": "10000"}),
    ({"heartbeat.interval.ms": 1000}, {"heartbeat.interval.ms": "1000"}),
    (
        {"session.timeout.ms": 400_000},
        {"session.timeout.ms": "400000", "max.poll.interval.ms": "400000"},
    ),
    (
        {"max.poll.interval.ms": 20_000},
        {"max.poll.interval.ms": "20000", "session.timeout.ms": "20000"},
    ),
    ({"request.timeout.ms": 5000}, {"socket.timeout.ms": "5000"}),
    ({"enable.auto.commit": "false"}, {"enable.auto.commit": "false"}),
    ({"auto.commit.interval.ms": 0}, {"auto.commit.interval.ms": "1"}),
    ({"auto.commit.interval.ms": 700}, {"auto.commit.interval.ms": "700"}),
    ({"check.crcs": False}, {"check.crcs": "false"}),
    ({"allow.auto.create.topics": False}, {"allow.auto.create.topics": "false"}),
    ({"client.rack": "r1"}, {"client.rack": "r1"}),
    ({"group.instance.id": "i1"}, {"group.instance.id": "i1"}),
    (
        {"group.protocol": "CONSUMER", "group.remote.assignor": "uniform"},
        {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
    ),
    (
        {"group.protocol": "consumer", "max.poll.interval.ms": 20_000},
        {"max.poll.interval.ms": "20000"},
    ),
    (
        {"partition.assignment.strategy": f"{JAVA}RoundRobinAssignor,{JAVA}RangeAssignor"},
        {"partition.assignment.strategy": "roundrobin,range"},
    ),
    (
        {"partition.assignment.strategy": [f"{JAVA}CooperativeStickyAssignor"]},
        {"partition.assignment.strategy": "cooperative-sticky"},
    ),
    (
        {"partition.assignment.strategy": f"{JAVA}RangeAssignor,{JAVA}CooperativeStickyAssignor"},
        {"partition.assignment.strategy": "range"},
    ),
    ({"queued.min.messages": 5}, {"queued.min.messages": "5"}),
]
# librdkafka prints only what differs from its defaults.
UNPRINTED = {
    "allow.auto.create.topics": "false",
    "check.crcs": "false",
}


@pytest.mark.parametrize(
    ("given", "expected"), MEANINGS, ids=lambda each: ",".join(f"{k}={v}" for k, v in each.items())
)
def test_librdkafka_understands_what_was_said(
    given: dict[str, Any], expected: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    understood = {**UNPRINTED, **told(capfd, Consumer, settings(given).rdkafka)}
    assert {name: understood.get(name) for name in expected} == expected


def test_read_committed_is_kept_for_the_consumer() -> None:
    said = settings({"isolation.level": "read_committed"})
    assert said.isolation == said.rdkafka["isolation.level"] == "read_committed"


def test_what_the_consumer_does_itself_is_beside_it() -> None:
    said = settings(
        {
            "max.poll.records": "7",
            "default.api.timeout.ms": 8,
            "handler.timeout.ms": 9,
            "revoke.timeout.ms": 0,
            "exclude.internal.topics": "false",
            "namespace": "dev.",
            "value.deserializer": str,
        }
    )
    assert (said.poll_records_max, said.api_timeout_ms) == (7, 8)
    assert (said.handler_timeout_ms, said.revoke_timeout_ms) == (9, 0)
    assert not said.excludes_internal_topics
    assert (said.namespace, said.value_deserializer) == ("dev.", str)


# -- without a group


def test_without_a_group_nothing_is_committed_by_itself() -> None:
    said = consumer_settings({}, bootstrap=NOWHERE)
    assert said.group_id is None
    assert not said.auto_commit
    with pytest.raises(SettingRefused, match=r"there is no group to commit for; set group\.id"):
        consumer_settings({"enable.auto.commit": True}, bootstrap=NOWHERE)


# -- the group's protocol


@pytest.mark.parametrize(
    ("key", "value", "way_out"),
    [
        ("session.timeout.ms", 9000, "consumer.session.timeout.ms"),
        ("heartbeat.interval.ms", 900, "consumer.heartbeat.interval.ms"),
        ("partition.assignment.strategy", "range", "group.remote.assignor"),
    ],
)
def test_what_brokers_decide_is_refused_with_the_way_out(
    key: str, value: Any, way_out: str
) -> None:
    with pytest.raises(SettingRefused, match=rf"{key}: cannot be set.*{way_out}"):
        settings({"group.protocol": "consumer", key: value})


def test_an_assignor_of_the_brokers_needs_their_protocol() -> None:
    with pytest.raises(SettingRefused, match=r"group\.remote\.assignor: takes effect with"):
        settings({"group.remote.assignor": "uniform"})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"partition.assignment.strategy": f"{JAVA}StickyAssignor"}, "use cooperative-sticky"),
        ({"partition.assignment.strategy": "com.example.Mine"}, "is not known"),
        ({"partition.assignment.strategy": ""}, "is empty"),
        ({"auto.offset.reset": "newest"}, "it takes earliest, latest, none, or by_duration"),
        ({"auto.offset.reset": "by_duration:1h"}, "is no duration"),
        ({"auto.offset.reset": "by_duration:-PT1H"}, "is below 0"),
        ({"max.poll.interval.ms": 1000, "session.timeout.ms": 2000}, "handler.timeout.ms"),
        ({"group.id": " "}, "group.id: is empty; leave it out"),
        ({"group.instance.id": "a b"}, "group.instance.id: is 'a b'; it takes 1 to 249 letters"),
        ({"group.instance.id": ".."}, "neither . nor .."),
        ({"group.instance.id": ""}, "group.instance.id: is ''"),
        ({"heartbeat.interval.ms": 45_000}, "has to be below session.timeout.ms (45000)"),
        (
            {"heartbeat.interval.ms": 6_000, "session.timeout.ms": 6_000},
            "has to be below session.timeout.ms (6000)",
        ),
        ({"share.acknowledgement.mode": "explicit"}, "share groups"),
        ({"isolation.level": "serializable"}, "it takes read_uncommitted, read_committed"),
        ({"enable.auto.offset.store": True}, "manual_finish=True"),
        ({"group.protocol": "streams"}, "it takes classic, consumer"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_with_its_key(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingRefused) as refused:
        settings(given)
    assert reason in str(refused.value)


def test_a_heartbeat_that_was_not_said_is_within_the_session() -> None:
    said = settings({"session.timeout.ms": 3_000})
    assert said.rdkafka["heartbeat.interval.ms"] == 1_000
    assert "heartbeat.interval.ms" not in settings({"session.timeout.ms": 6_000}).rdkafka


def test_leaving_out_an_assignor_is_said() -> None:
    said = settings({"partition.assignment.strategy": "range,cooperative-sticky"})
    ((key, why),) = said.ignored
    assert key == "partition.assignment.strategy"
    assert "cooperative-sticky is left out" in why


# -- where to begin


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("Earliest", "earliest"),
        ("beginning", "earliest"),
        ("end", "latest"),
        ("error", "none"),
        ("by_duration:P1DT2H3M4.5S", ("by_duration", 93_784_500)),
    ],
)
def test_a_beginning_is_understood(word: str, meaning: object) -> None:
    assert settings({"auto.offset.reset": word}).offset_reset == meaning


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("P2D", 172_800_000),
        ("pt1m30s", 90_000),
        ("PT0.001S", 1),
        ("PT-30M1H", None),
        ("PT1H-30M", 1_800_000),
        ("P1W", None),
        ("P1Y", None),
        ("PT", None),
        ("P", None),
        ("", None),
        ("1000", None),
    ],
)
def test_a_duration_is_javas(text: str, milliseconds: int | None) -> None:
    if milliseconds is None:
        with pytest.raises(ValueError, match="is no duration"):
            duration_ms(text)
    else:
        assert duration_ms(text) == milliseconds


@given_by(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59_999))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, ms: int) -> None:
    text = f"P{days}DT{hours}H{minutes}M{ms / 1000}S"
    assert duration_ms(text) == ((days * 24 + hours) * 60 + minutes) * 60_000 + ms
