"""A group's values: its own, its broker's, and what may be set."""

import pytest

from penstock.config import (
    GROUP_KEYS,
    BrokerConfig,
    ConfigSource,
    GroupConfig,
    Synonym,
    describe_group,
    validate_group_default,
    validate_group_overrides,
)
from penstock.config.keys_group import LIMITS
from penstock.errors import InvalidConfig

DEFAULTS = BrokerConfig.of({})
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


@pytest.mark.parametrize("name", sorted(GROUP_KEYS))
def test_without_settings_a_group_has_its_keys_default(name: str) -> None:
    assert GroupConfig({}, DEFAULTS).get(name) == GROUP_KEYS[name].default


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_limits_are_broker_keys_and_let_the_default_pass(name: str) -> None:
    default = GROUP_KEYS[name].default
    assert isinstance(default, int)
    low, high = LIMITS[name]
    assert low is None or DEFAULTS.integer(low) <= default
    assert default <= DEFAULTS.integer(high)


def test_the_groups_own_value_comes_before_the_brokers() -> None:
    broker = BrokerConfig.of({"group.consumer.session.timeout.ms": "50000"})
    assert GroupConfig({}, broker).get(SESSION) == 50_000
    group = GroupConfig({SESSION: " +46000 "}, broker)
    assert group.get(SESSION) == 46_000
    assert group.synonyms(SESSION) == (
        Synonym(SESSION, "46000", ConfigSource.GROUP),
        Synonym("group.consumer.session.timeout.ms", "50000", ConfigSource.STATIC_BROKER),
        Synonym("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
    )


def test_a_key_that_no_broker_has_falls_back_to_its_own_default() -> None:
    group = GroupConfig({"share.isolation.level": "read_committed"}, DEFAULTS)
    assert group.synonyms("share.isolation.level") == (
        Synonym("share.isolation.level", "read_committed", ConfigSource.GROUP),
        Synonym("share.isolation.level", "read_uncommitted", ConfigSource.DEFAULT),
    )


def test_a_group_follows_a_dynamic_change_of_its_broker() -> None:
    broker = DEFAULTS.with_dynamic({}, {f"group.{ASSIGNMENT}": "3000"})
    (row,) = describe_group(GroupConfig({}, broker), [ASSIGNMENT])
    assert (row.value, row.source) == ("3000", ConfigSource.DYNAMIC_DEFAULT_BROKER)


def test_a_value_of_another_release_does_not_hide_the_brokers() -> None:
    group = GroupConfig({"no.such.key": "1", SESSION: "soon"}, DEFAULTS)
    assert group.get(SESSION) == 45_000
    assert {row.name for row in describe_group(group)} == set(GROUP_KEYS)


def test_describe_has_every_key_as_kafka_prints_it() -> None:
    rows = {row.name: row for row in describe_group(GroupConfig({}, DEFAULTS))}
    assert set(rows) == set(GROUP_KEYS)
    assert rows["share.renew.acknowledge.enable"].value == "true"
    assert not any(row.read_only or row.is_sensitive for row in rows.values())
    assert all(row.source == ConfigSource.DEFAULT for row in rows.values())


def test_keys_of_groups_that_are_not_served_say_so() -> None:
    for name, key in GROUP_KEYS.items():
        served = name.startswith("consumer.")
        assert key.about
        assert ("without effect" in key.documentation) is not served


# -- what may be set


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (SESSION, "60000"),
        (SESSION, " 45000 "),
        (HEARTBEAT, "15000"),
        (ASSIGNMENT, "0"),
        ("share.delivery.count.limit", "10"),
        ("share.record.lock.duration.ms", "15000"),
        ("share.partition.max.record.locks", "4000"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "FALSE"),
        ("streams.num.standby.replicas", "2"),
        ("streams.initial.rebalance.delay.ms", "99999999"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, value: str) -> None:
    validate_group_overrides({name: value}, DEFAULTS)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (SESSION, "abc", "Not a number of type INT"),
        (SESSION, "", "Not a number of type INT"),
        (SESSION, "99999999999", "to 2147483647"),
        (
            SESSION,
            "44999",
            "or equal to group.consumer.min.session.timeout.ms: 44999 is below 45000",
        ),
        (
            SESSION,
            "60001",
            "or equal to group.consumer.max.session.timeout.ms: 60001 is above 60000",
        ),
        (HEARTBEAT, "0", "at least 1"),
        (HEARTBEAT, "4999", "group.consumer.min.heartbeat.interval.ms"),
        (ASSIGNMENT, "-1", "at least 0"),
        (ASSIGNMENT, "15001", "group.consumer.max.assignment.interval.ms"),
        ("share.record.lock.duration.ms", "14999", "group.share.min.record.lock.duration.ms"),
        ("share.delivery.count.limit", "1", "at least 2"),
        ("share.delivery.count.limit", "11", "group.share.max.delivery.count.limit"),
        ("share.partition.max.record.locks", "99", "at least 100"),
        ("share.partition.max.record.locks", "4001", "group.share.max.partition.max.record.locks"),
        ("share.isolation.level", "READ_COMMITTED", "read_committed, read_uncommitted"),
        ("share.renew.acknowledge.enable", "maybe", "true or false"),
        ("streams.num.standby.replicas", "3", "group.streams.max.standby.replicas"),
        ("streams.initial.rebalance.delay.ms", "-1", "at least 0"),
    ],
)
def test_what_kafka_refuses_is_refused_with_the_reason(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"{name}.*{reason}"):
        validate_group_overrides({name: value}, DEFAULTS)


@pytest.mark.parametrize("name", ["consumer.session.timeout", "consumer.assignor.offload.enable"])
def test_an_unknown_group_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"Unknown group config name: {name}"):
        validate_group_overrides({name: "1"}, DEFAULTS)


def test_the_nearest_group_key_is_named() -> None:
    with pytest.raises(InvalidConfig, match=f"did you mean {SESSION}"):
        validate_group_overrides({"consumer.session.timeout": "1"}, DEFAULTS)


@pytest.mark.parametrize(
    "value",
    [
        "earliest",
        "latest",
        "by_duration:PT1H",
        "by_duration:pt1h",
        "by_duration:+PT1H",
        "by_duration:P1D",
        "by_duration:P1DT2H3M4.5S",
        "by_duration:PT1,5S",
        "by_duration:PT1.S",
        "by_duration:PT0S",
        "by_duration:PT-1H90M",
    ],
)
def test_a_share_group_may_begin_where_kafka_lets_it(value: str) -> None:
    validate_group_overrides({"share.auto.offset.reset": value}, DEFAULTS)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "none",
        "Earliest",
        "by_duration",
        "by_duration:",
        "by_duration: PT1H",
        "BY_DURATION:PT1H",
        "by_duration:-PT1H",
        "by_duration:PT-1H",
        "by_duration:PT-1H2M",
        "by_duration:-PT0.5S",
        "by_duration:PT-0.5S",
        "by_duration:PT1H-90M",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:P1DT",
        "by_duration:P1M",
        "by_duration:P1W",
        "by_duration:PT1.H",
        "by_duration:PT.5S",
        "by_duration:PT99999999999999999H",
    ],
)
def test_a_share_group_may_begin_nowhere_else(value: str) -> None:
    with pytest.raises(InvalidConfig, match="The value must be either 'earliest', 'latest'"):
        validate_group_overrides({"share.auto.offset.reset": value}, DEFAULTS)


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_must_outlast_the_time_between_two_heartbeats(kind: str) -> None:
    broker = BrokerConfig.of({f"group.{kind}.min.session.timeout.ms": "10000"})
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    validate_group_overrides({session: "10001", heartbeat: "10000"}, broker)
    with pytest.raises(InvalidConfig, match=rf"{session} \(10000\) must be above {heartbeat}"):
        validate_group_overrides({session: "10000", heartbeat: "10000"}, broker)


def test_the_brokers_heartbeat_counts_where_the_group_has_none() -> None:
    broker = BrokerConfig.of(
        {f"group.{HEARTBEAT}": "12000", "group.consumer.min.session.timeout.ms": "10000"}
    )
    with pytest.raises(InvalidConfig, match=rf"must be above {HEARTBEAT} \(12000\)"):
        validate_group_overrides({SESSION: "11000"}, broker)


def test_a_brokers_default_must_keep_to_the_limits_too() -> None:
    validate_group_default(f"group.{ASSIGNMENT}", "15000", DEFAULTS)
    validate_group_default("message.max.bytes", "1", DEFAULTS)
    with pytest.raises(InvalidConfig, match="is above 15000"):
        validate_group_default(f"group.{ASSIGNMENT}", "15001", DEFAULTS)
