"""Broker keys of tiered storage, which is not served yet: known by name."""

from penstock.config.allowed import NotEmpty, at_least, between
from penstock.config.key import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    LONG_MAX,
    STRING,
    Key,
    cluster_wide,
    read_only,
)

KEYS: tuple[Key, ...] = (
    cluster_wide("follower.fetch.last.tiered.offset.enable", BOOLEAN, False),
    cluster_wide("remote.fetch.max.wait.ms", INT, 500, at_least(1)),
    cluster_wide("remote.list.offsets.request.timeout.ms", LONG, 30000, at_least(1)),
    cluster_wide("remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, at_least(1)),
    read_only("remote.log.index.file.cache.ttl.ms", LONG, 900_000, at_least(-1), internal=True),
    cluster_wide("remote.log.manager.copier.thread.pool.size", INT, 10, at_least(1)),
    cluster_wide("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1)),
    read_only("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1)),
    read_only("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1)),
    cluster_wide("remote.log.manager.expiration.thread.pool.size", INT, 10, at_least(1)),
    cluster_wide("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1)),
    read_only("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1)),
    read_only("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1)),
    cluster_wide("remote.log.manager.follower.thread.pool.size", INT, 2, at_least(1)),
    read_only("remote.log.manager.task.interval.ms", LONG, 30000, at_least(1)),
    read_only(
        "remote.log.manager.task.retry.backoff.max.ms", LONG, 30000, at_least(1), internal=True
    ),
    read_only("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), internal=True),
    read_only("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, between(0, 0.5), internal=True),
    read_only("remote.log.manager.thread.pool.size", INT, 2, at_least(1)),
    read_only("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0)),
    read_only("remote.log.metadata.manager.class.name", STRING, None, NotEmpty()),
    read_only("remote.log.metadata.manager.class.path", STRING, None),
    read_only("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", NotEmpty()),
    read_only("remote.log.metadata.manager.listener.name", STRING, None, NotEmpty()),
    read_only("remote.log.reader.max.pending.tasks", INT, 100, at_least(1)),
    cluster_wide("remote.log.reader.threads", INT, 10, at_least(1)),
    read_only("remote.log.storage.manager.class.name", STRING, None, NotEmpty()),
    read_only("remote.log.storage.manager.class.path", STRING, None),
    read_only("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", NotEmpty()),
    read_only("remote.log.storage.system.enable", BOOLEAN, False).now(
        "Turns on tiered storage, which is not served yet: true stops the start."
    ),
)
