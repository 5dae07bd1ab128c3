"""Broker keys of replication."""

from penstock.config.allowed import at_least
from penstock.config.key import BOOLEAN, INT, LONG, LONG_MAX, STRING, Key, cluster_wide, read_only

KEYS: tuple[Key, ...] = (
    cluster_wide(
        "follower.replication.throttled.rate", LONG, LONG_MAX, at_least(0), listed_if_set=True
    ).later("The rate in bytes per second at which throttled followers fetch."),
    cluster_wide(
        "leader.replication.throttled.rate", LONG, LONG_MAX, at_least(0), listed_if_set=True
    ).later("The rate in bytes per second at which leaders serve throttled replicas."),
    cluster_wide("min.insync.replicas", INT, 1, at_least(1)).now(
        "How many replicas must be in sync for acks=all to succeed; also how many a committed "
        "record is on."
    ),
    read_only("num.replica.alter.log.dirs.threads", INT, None).never(
        "Threads that move replicas between directories."
    ),
    cluster_wide("num.replica.fetchers", INT, 1, at_least(1)).never(
        "Threads that fetch from leaders; here the loop does."
    ),
    cluster_wide(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        at_least(0),
        listed_if_set=True,
    ).now("The rate at which replicas move between directories."),
    read_only("replica.fetch.backoff.ms", INT, 1000, at_least(0)).now(
        "How long a follower waits after a failed fetch."
    ),
    read_only("replica.fetch.max.bytes", INT, 1_048_576, at_least(0)).now(
        "The most a follower asks for per partition."
    ),
    read_only("replica.fetch.min.bytes", INT, 1).now("The least a follower waits for."),
    read_only("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0)).now(
        "The most a follower asks for per fetch."
    ),
    read_only("replica.fetch.wait.max.ms", INT, 500).now(
        "The longest a follower's fetch waits for data."
    ),
    read_only("replica.high.watermark.checkpoint.interval.ms", LONG, 5000).now(
        "How often the high watermarks are written down."
    ),
    read_only("replica.lag.time.max.ms", LONG, 30000).now(
        "A follower that has not caught up for this long leaves the in-sync set."
    ),
    read_only("replica.selector.class", STRING, None).later(
        "How a consumer is sent to a nearby replica."
    ),
    read_only("replica.socket.receive.buffer.bytes", INT, 65536).later(
        "The receive buffer of a follower's connection."
    ),
    read_only("replica.socket.timeout.ms", INT, 30000).now(
        "How long a follower waits for its leader's answer."
    ),
    cluster_wide("unclean.leader.election.enable", BOOLEAN, False).now(
        "Whether a replica that is behind may become leader when no other is left. Loses records."
    ),
    read_only("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), internal=True).now(
        "How often to look for partitions that such an election would help."
    ),
)
