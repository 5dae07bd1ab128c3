"""Broker keys of share groups, which are not served yet: known by name."""

from penstock.config.allowed import at_least, between
from penstock.config.key import INT, LIST, SHORT, STRING, Key, cluster_wide, read_only

KEYS: tuple[Key, ...] = (
    cluster_wide("group.share.assignment.interval.ms", INT, 1000, at_least(0)),
    read_only("group.share.assignors", LIST, ("simple",)),
    read_only("group.share.delivery.count.limit", INT, 5, between(2, 10)),
    read_only("group.share.heartbeat.interval.ms", INT, 5000, at_least(1)),
    read_only("group.share.initialize.retry.interval.ms", INT, 30000, at_least(1), internal=True),
    read_only("group.share.max.assignment.interval.ms", INT, 15000, at_least(0)),
    read_only("group.share.max.delivery.count.limit", INT, 10, between(5, 25)),
    read_only("group.share.max.heartbeat.interval.ms", INT, 15000, at_least(1)),
    read_only("group.share.max.partition.max.record.locks", INT, 4000, between(2000, 10000)),
    read_only("group.share.max.record.lock.duration.ms", INT, 60000, between(30000, 3_600_000)),
    read_only("group.share.max.session.timeout.ms", INT, 60000, at_least(1)),
    read_only("group.share.max.share.sessions", INT, 2000, at_least(1)),
    read_only("group.share.max.size", INT, 200, between(1, 1000)),
    read_only("group.share.min.assignment.interval.ms", INT, 0, at_least(0)),
    read_only("group.share.min.delivery.count.limit", INT, 2, between(2, 5)),
    read_only("group.share.min.heartbeat.interval.ms", INT, 5000, at_least(1)),
    read_only("group.share.min.partition.max.record.locks", INT, 100, between(100, 2000)),
    read_only("group.share.min.record.lock.duration.ms", INT, 15000, between(1000, 30000)),
    read_only("group.share.min.session.timeout.ms", INT, 45000, at_least(1)),
    read_only("group.share.partition.max.record.locks", INT, 2000, between(100, 10000)),
    read_only("group.share.persister.class.name", STRING, None, internal=True),
    read_only("group.share.record.lock.duration.ms", INT, 30000, between(1000, 3_600_000)),
    read_only("group.share.session.timeout.ms", INT, 45000, at_least(1)),
    read_only("share.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    cluster_wide("share.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288)),
    read_only(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        INT,
        300_000,
        at_least(1),
        internal=True,
    ),
    read_only("share.coordinator.load.buffer.size", INT, 5_242_880, at_least(1)),
    read_only("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500)),
    read_only("share.coordinator.state.topic.compression.codec", INT, 0),
    read_only("share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1)),
    read_only("share.coordinator.state.topic.num.partitions", INT, 50, at_least(1)),
    read_only(
        "share.coordinator.state.topic.prune.interval.ms", INT, 300_000, at_least(1), internal=True
    ),
    read_only("share.coordinator.state.topic.replication.factor", SHORT, 3, at_least(1)),
    read_only("share.coordinator.state.topic.segment.bytes", INT, 104_857_600, at_least(1)),
    read_only("share.coordinator.threads", INT, 1, at_least(1)),
    read_only("share.coordinator.write.timeout.ms", INT, 5000, at_least(1)),
    read_only("share.fetch.purgatory.purge.interval.requests", INT, 1000).never(
        "How often Kafka sweeps its waiting share fetches; here nothing is left to sweep."
    ),
)
