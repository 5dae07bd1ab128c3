"""Topic keys, each with the broker keys of its default.

A topic key may change at any time, so its mode is always CLUSTER_WIDE here.
"""

from penstock.config import keys_log, keys_replication
from penstock.config.allowed import ThrottledReplicas, at_least
from penstock.config.key import BOOLEAN, INT, LIST, LONG, LONG_MAX, Key, cluster_wide

_BROKER_KEYS = {key.name: key for key in (*keys_log.KEYS, *keys_replication.KEYS)}


def _as_broker(name: str, broker_name: str | None = None) -> Key:
    """Return a topic key equal to the broker key of its default."""
    broker = _BROKER_KEYS[broker_name or name]
    return broker._replace(name=name, synonyms=((broker.name, 1),))


KEYS: tuple[Key, ...] = (
    _as_broker("cleanup.policy", "log.cleanup.policy"),
    _as_broker("compression.gzip.level"),
    _as_broker("compression.lz4.level"),
    _as_broker("compression.type"),
    _as_broker("compression.zstd.level"),
    _as_broker("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _as_broker("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _as_broker("flush.messages", "log.flush.interval.messages"),
    cluster_wide(
        "flush.ms",
        LONG,
        LONG_MAX,
        at_least(0),
        (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    ).now(
        "Sync a partition to the disk when its oldest unsynced record is this old. "
        "Acknowledgements do not wait for it. Under log.durability=fsync every record is synced "
        "anyway."
    ),
    cluster_wide("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas()).later(
        "Followers that fetch slowly, as partition:broker, or '*' for all."
    ),
    _as_broker("index.interval.bytes", "log.index.interval.bytes"),
    cluster_wide("internal.segment.bytes", INT, None, internal=True).now(
        "A segment size below the limit of segment.bytes, for tests."
    ),
    cluster_wide("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas()).later(
        "Replicas that are served slowly, as partition:broker, or '*' for all."
    ),
    cluster_wide(
        "local.retention.bytes", LONG, -2, at_least(-2), (("log.local.retention.bytes", 1),)
    ).later("With tiered storage: the size to keep locally; -2 is retention.bytes."),
    cluster_wide(
        "local.retention.ms", LONG, -2, at_least(-2), (("log.local.retention.ms", 1),)
    ).later("With tiered storage: how long to keep locally; -2 is retention.ms."),
    _as_broker("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _as_broker("max.message.bytes", "message.max.bytes"),
    _as_broker("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _as_broker("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _as_broker("message.timestamp.type", "log.message.timestamp.type"),
    _as_broker("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _as_broker("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _as_broker("min.insync.replicas"),
    _as_broker("preallocate", "log.preallocate"),
    cluster_wide("remote.log.copy.disable", BOOLEAN, False).later(
        "With tiered storage: stop moving segments out."
    ),
    cluster_wide("remote.log.delete.on.disable", BOOLEAN, False).later(
        "With tiered storage: delete what was moved out when tiering is turned off."
    ),
    cluster_wide("remote.storage.enable", BOOLEAN, False).now(
        "Turns on tiered storage for the topic, which is not served yet: true is rejected."
    ),
    _as_broker("retention.bytes", "log.retention.bytes"),
    cluster_wide(
        "retention.ms",
        LONG,
        604_800_000,
        at_least(-1),
        (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ),
    ).now(
        "How long segments are kept, by the largest timestamp in them, or their last write where "
        "there is none. A timestamp from the future counts as the last write plus what "
        "message.timestamp.after.max.ms lets through, at most twice this time in all. -1 is for "
        "ever."
    ),
    _as_broker("segment.bytes", "log.segment.bytes"),
    _as_broker("segment.index.bytes", "log.index.size.max.bytes"),
    cluster_wide(
        "segment.jitter.ms",
        LONG,
        0,
        at_least(0),
        (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    ).now(
        "A random part of up to this is taken off segment.ms, so that not all partitions roll at "
        "once."
    ),
    cluster_wide(
        "segment.ms",
        LONG,
        604_800_000,
        at_least(1),
        (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    ).now(
        "The age at which a segment is closed, with the first record that comes after that. On "
        "compacted topics max.compaction.lag.ms, where it is shorter."
    ),
    _as_broker("unclean.leader.election.enable"),
)
