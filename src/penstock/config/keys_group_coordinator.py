"""Broker keys of groups and committed offsets."""

from penstock.config.allowed import EachOf, OneOf, at_least
from penstock.config.key import (
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    Key,
    cluster_wide,
    read_only,
)

KEYS: tuple[Key, ...] = (
    cluster_wide("group.consumer.assignment.interval.ms", INT, 1000, at_least(0)).now(
        "How long a consumer group keeps an assignment at least before it is computed again."
    ),
    read_only("group.consumer.assignors", LIST, ("uniform", "range")).now(
        "The server-side assignors, the first being the default."
    ),
    read_only("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1)).now(
        "How often members of such a group are told to report."
    ),
    read_only("group.consumer.max.assignment.interval.ms", INT, 15000, at_least(0)).now(
        "The largest consumer.assignment.interval.ms of a group."
    ),
    read_only("group.consumer.max.heartbeat.interval.ms", INT, 15000, at_least(1)).now(
        "The largest consumer.heartbeat.interval.ms of a group."
    ),
    read_only("group.consumer.max.session.timeout.ms", INT, 60000, at_least(1)).now(
        "The largest consumer.session.timeout.ms of a group."
    ),
    read_only("group.consumer.max.size", INT, INT_MAX, at_least(1)).now(
        "The most members that a consumer group may have."
    ),
    read_only(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        OneOf(("disabled", "downgrade", "upgrade", "bidirectional"), any_case=True),
    ).now("Which way a group may change between the classic and the consumer protocol."),
    read_only("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0)).now(
        "The smallest consumer.assignment.interval.ms of a group."
    ),
    read_only("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1)).now(
        "The smallest consumer.heartbeat.interval.ms of a group."
    ),
    read_only("group.consumer.min.session.timeout.ms", INT, 45000, at_least(1)).now(
        "The smallest consumer.session.timeout.ms of a group."
    ),
    read_only(
        "group.consumer.regex.refresh.interval.ms", INT, 600_000, at_least(10000), internal=True
    ).now("How often patterns that members subscribe by are looked up again."),
    read_only("group.consumer.session.timeout.ms", INT, 45000, at_least(1)).now(
        "A member of a consumer group (KIP-848) silent for this long is dropped."
    ),
    read_only("group.coordinator.append.linger.ms", INT, -1, at_least(-1)).never(
        "How long the coordinator collects writes; here a turn of the loop collects them."
    ),
    read_only("group.coordinator.background.threads", INT, 2, at_least(1)).never(
        "Threads for slow work of the group coordinator."
    ),
    cluster_wide("group.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288)),
    read_only(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        EachOf(("consumer", "classic", "share", "streams")),
    ).now("The kinds of groups that may be used."),
    read_only("group.coordinator.threads", INT, 4, at_least(1)).never(
        "Threads of the group coordinator; here the loop does its work."
    ),
    read_only("group.initial.rebalance.delay.ms", INT, 3000).now(
        "How long a new group waits for more members before its first rebalance."
    ),
    read_only("group.max.session.timeout.ms", INT, 1_800_000).now(
        "The longest session timeout that a member may ask for."
    ),
    read_only("group.max.size", INT, INT_MAX, at_least(1)).now(
        "The most members that a group may have."
    ),
    read_only("group.min.session.timeout.ms", INT, 6000).now(
        "The shortest session timeout that a member may ask for."
    ),
    cluster_wide("group.streams.assignment.interval.ms", INT, 1000, at_least(0)),
    read_only("group.streams.heartbeat.interval.ms", INT, 5000, at_least(1)),
    read_only("group.streams.initial.rebalance.delay.ms", INT, 3000, at_least(0)),
    read_only("group.streams.max.assignment.interval.ms", INT, 15000, at_least(0)),
    read_only("group.streams.max.heartbeat.interval.ms", INT, 15000, at_least(1)),
    read_only("group.streams.max.session.timeout.ms", INT, 60000, at_least(1)),
    read_only("group.streams.max.size", INT, INT_MAX, at_least(1)),
    read_only("group.streams.max.standby.replicas", INT, 2, at_least(0)),
    read_only("group.streams.min.assignment.interval.ms", INT, 0, at_least(0)),
    read_only("group.streams.min.heartbeat.interval.ms", INT, 5000, at_least(1)),
    read_only("group.streams.min.session.timeout.ms", INT, 45000, at_least(1)),
    read_only("group.streams.num.standby.replicas", INT, 0, at_least(0)),
    read_only("group.streams.session.timeout.ms", INT, 45000, at_least(1)),
    read_only("offset.metadata.max.bytes", INT, 4096).now(
        "The longest note that a client may commit with an offset."
    ),
    read_only("offsets.commit.timeout.ms", INT, 5000, at_least(1)).later(
        "How long a commit of offsets may wait for its replicas."
    ),
    read_only("offsets.load.buffer.size", INT, 5_242_880, at_least(1)).never(
        "How much of __consumer_offsets is read at a time when a group's state is loaded."
    ),
    read_only("offsets.retention.check.interval.ms", LONG, 600_000, at_least(1)).now(
        "How often to look for offsets that have expired."
    ),
    read_only("offsets.retention.minutes", INT, 10080, at_least(1)).now(
        "How long committed offsets are kept after their group is empty."
    ),
    read_only("offsets.topic.compression.codec", INT, 0).now(
        "How __consumer_offsets is compressed, as a number: 0 is not at all."
    ),
    read_only("offsets.topic.num.partitions", INT, 50, at_least(1)).now(
        "The number of partitions of __consumer_offsets; cannot change once it exists."
    ),
    read_only("offsets.topic.replication.factor", SHORT, 3, at_least(1)).now(
        "The number of replicas of __consumer_offsets. With fewer brokers groups do not work."
    ),
    read_only("offsets.topic.segment.bytes", INT, 104_857_600, at_least(1)).now(
        "The segment size of __consumer_offsets."
    ),
)
