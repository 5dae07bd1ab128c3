"""Keys of a single group, each with the broker key of its default.

keys_group_coordinator.py and keys_share.py have those broker keys, and the keys that limit a
group's settings. A group's key may change at any time, so its mode is always CLUSTER_WIDE here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.config.allowed import OffsetReset, OneOf, at_least
from penstock.config.key import BOOLEAN, INT, STRING, Key, cluster_wide


def _integer(name: str, default: int, low: int) -> Key:
    """Return a number of a group; the broker key `group.<name>` gives its default."""
    return cluster_wide(name, INT, default, at_least(low), ((f"group.{name}", 1),))


KEYS: tuple[Key, ...] = (
    _integer("consumer.assignment.interval.ms", 1000, 0).now(
        "How long the group keeps an assignment at least before it is computed again."
    ),
    _integer("consumer.heartbeat.interval.ms", 5000, 1).now(
        "How often members of the consumer protocol are told to report."
    ),
    _integer("consumer.session.timeout.ms", 45000, 1).now(
        "A member of the consumer protocol that is silent for this long is dropped. It must be "
        "longer than consumer.heartbeat.interval.ms."
    ),
    _integer("share.assignment.interval.ms", 1000, 0).later(
        "How long a share group keeps an assignment at least before it is computed again."
    ),
    cluster_wide(
        "share.auto.offset.reset", STRING, "latest", OffsetReset("share.auto.offset.reset")
    ).later("Where a share group begins to read a partition."),
    _integer("share.delivery.count.limit", 5, 2).later(
        "How often a share group tries to deliver a record."
    ),
    _integer("share.heartbeat.interval.ms", 5000, 1).later(
        "How often members of a share group are told to report."
    ),
    cluster_wide(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
    ).later("Whether a share group sees records of transactions before they are committed."),
    _integer("share.partition.max.record.locks", 2000, 100).later(
        "How many records of a partition a share group may have locked at a time."
    ),
    _integer("share.record.lock.duration.ms", 30000, 1000).later(
        "How long a record is locked for the member of a share group that got it."
    ),
    cluster_wide("share.renew.acknowledge.enable", BOOLEAN, True).later(
        "Whether members of a share group may ask for more time with a record."
    ),
    _integer("share.session.timeout.ms", 45000, 1).later(
        "A member of a share group that is silent for this long is dropped. It must be longer than "
        "share.heartbeat.interval.ms."
    ),
    _integer("streams.assignment.interval.ms", 1000, 0).later(
        "How long a streams group keeps an assignment at least before it is computed again."
    ),
    _integer("streams.heartbeat.interval.ms", 5000, 1).later(
        "How often members of a streams group are told to report."
    ),
    _integer("streams.initial.rebalance.delay.ms", 3000, 0).later(
        "How long a new streams group waits for more members before its first assignment."
    ),
    _integer("streams.num.standby.replicas", 0, 0).later(
        "How many copies of a task's state a streams group keeps besides the task's own."
    ),
    _integer("streams.session.timeout.ms", 45000, 1).later(
        "A member of a streams group that is silent for this long is dropped. It must be longer "
        "than streams.heartbeat.interval.ms."
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
