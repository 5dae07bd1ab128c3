"""Keys of a single group, each with the broker key of its default.

keys_group_coordinator.py and keys_share.py have those broker keys, and the keys that limit a
group's settings. A group's key may change at any time, so its mode is always CLUSTER_WIDE here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.config.allowed import OffsetReset, OneOf, at_least
from penstock.config.key import BOOLEAN, CLUSTER_WIDE, INT, LATER, NOW, STRING, Key

KEYS: tuple[Key, ...] = (
    Key(
        "consumer.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        CLUSTER_WIDE,
        NOW,
        "How long the group keeps an assignment at least before it is computed again.",
        (("group.consumer.assignment.interval.ms", 1),),
    ),
    Key(
        "consumer.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        CLUSTER_WIDE,
        NOW,
        "How often members of the consumer protocol are told to report.",
        (("group.consumer.heartbeat.interval.ms", 1),),
    ),
    Key(
        "consumer.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        CLUSTER_WIDE,
        NOW,
        "A member of the consumer protocol that is silent for this long is dropped. It must be "
        "longer than consumer.heartbeat.interval.ms.",
        (("group.consumer.session.timeout.ms", 1),),
    ),
    Key(
        "share.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        CLUSTER_WIDE,
        LATER,
        "How long a share group keeps an assignment at least before it is computed again.",
        (("group.share.assignment.interval.ms", 1),),
    ),
    Key(
        "share.auto.offset.reset",
        STRING,
        "latest",
        OffsetReset("share.auto.offset.reset"),
        CLUSTER_WIDE,
        LATER,
        "Where a share group begins to read a partition.",
    ),
    Key(
        "share.delivery.count.limit",
        INT,
        5,
        at_least(2),
        CLUSTER_WIDE,
        LATER,
        "How often a share group tries to deliver a record.",
        (("group.share.delivery.count.limit", 1),),
    ),
    Key(
        "share.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        CLUSTER_WIDE,
        LATER,
        "How often members of a share group are told to report.",
        (("group.share.heartbeat.interval.ms", 1),),
    ),
    Key(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        CLUSTER_WIDE,
        LATER,
        "Whether a share group sees records of transactions before they are committed.",
    ),
    Key(
        "share.partition.max.record.locks",
        INT,
        2000,
        at_least(100),
        CLUSTER_WIDE,
        LATER,
        "How many records of a partition a share group may have locked at a time.",
        (("group.share.partition.max.record.locks", 1),),
    ),
    Key(
        "share.record.lock.duration.ms",
        INT,
        30000,
        at_least(1000),
        CLUSTER_WIDE,
        LATER,
        "How long a record is locked for the member of a share group that got it.",
        (("group.share.record.lock.duration.ms", 1),),
    ),
    Key(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        None,
        CLUSTER_WIDE,
        LATER,
        "Whether members of a share group may ask for more time with a record.",
    ),
    Key(
        "share.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        CLUSTER_WIDE,
        LATER,
        "A member of a share group that is silent for this long is dropped. It must be longer "
        "than share.heartbeat.interval.ms.",
        (("group.share.session.timeout.ms", 1),),
    ),
    Key(
        "streams.assignment.interval.ms",
        INT,
        1000,
        at_least(0),
        CLUSTER_WIDE,
        LATER,
        "How long a streams group keeps an assignment at least before it is computed again.",
        (("group.streams.assignment.interval.ms", 1),),
    ),
    Key(
        "streams.heartbeat.interval.ms",
        INT,
        5000,
        at_least(1),
        CLUSTER_WIDE,
        LATER,
        "How often members of a streams group are told to report.",
        (("group.streams.heartbeat.interval.ms", 1),),
    ),
    Key(
        "streams.initial.rebalance.delay.ms",
        INT,
        3000,
        at_least(0),
        CLUSTER_WIDE,
        LATER,
        "How long a new streams group waits for more members before its first assignment.",
        (("group.streams.initial.rebalance.delay.ms", 1),),
    ),
    Key(
        "streams.num.standby.replicas",
        INT,
        0,
        at_least(0),
        CLUSTER_WIDE,
        LATER,
        "How many copies of a task's state a streams group keeps besides the task's own.",
        (("group.streams.num.standby.replicas", 1),),
    ),
    Key(
        "streams.session.timeout.ms",
        INT,
        45000,
        at_least(1),
        CLUSTER_WIDE,
        LATER,
        "A member of a streams group that is silent for this long is dropped. It must be longer "
        "than streams.heartbeat.interval.ms.",
        (("group.streams.session.timeout.ms", 1),),
    ),
)


class GroupKeyLimits(NamedTuple):
    """The broker keys that limit a group's value."""

    low: str | None
    high: str


def _limits(kind: str, rest: str) -> GroupKeyLimits:
    return GroupKeyLimits(f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}")


LIMITS: Mapping[str, GroupKeyLimits] = {
    "consumer.assignment.interval.ms": _limits("consumer", "assignment.interval.ms"),
    "consumer.heartbeat.interval.ms": _limits("consumer", "heartbeat.interval.ms"),
    "consumer.session.timeout.ms": _limits("consumer", "session.timeout.ms"),
    "share.assignment.interval.ms": _limits("share", "assignment.interval.ms"),
    "share.delivery.count.limit": _limits("share", "delivery.count.limit"),
    "share.heartbeat.interval.ms": _limits("share", "heartbeat.interval.ms"),
    "share.partition.max.record.locks": _limits("share", "partition.max.record.locks"),
    "share.record.lock.duration.ms": _limits("share", "record.lock.duration.ms"),
    "share.session.timeout.ms": _limits("share", "session.timeout.ms"),
    "streams.assignment.interval.ms": _limits("streams", "assignment.interval.ms"),
    "streams.heartbeat.interval.ms": _limits("streams", "heartbeat.interval.ms"),
    "streams.num.standby.replicas": GroupKeyLimits(None, "group.streams.max.standby.replicas"),
    "streams.session.timeout.ms": _limits("streams", "session.timeout.ms"),
}


def allowed_text(key: Key) -> str:
    """Return the allowed values of a group's key, for people."""
    texts = [key.allowed.text()] if key.allowed is not None else []
    if key.name in LIMITS:
        low, high = LIMITS[key.name]
        texts.append(f"{low} to {high}" if low else f"at most {high}")
    return "; ".join(texts)


# Each session must outlast the time between two heartbeats.
SESSIONS: Mapping[str, str] = {
    "consumer.session.timeout.ms": "consumer.heartbeat.interval.ms",
    "share.session.timeout.ms": "share.heartbeat.interval.ms",
    "streams.session.timeout.ms": "streams.heartbeat.interval.ms",
}
