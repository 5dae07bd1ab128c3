"""Broker keys of the log: directories, segments, retention, flushing, compaction."""

from penstock.config.allowed import Between, EachOf, OneOf, at_least, between
from penstock.config.key import (
    BOOLEAN,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    Key,
    cluster_wide,
    per_broker,
    read_only,
)

# Decided by measurement: fsync if it costs at most a tenth of the throughput, else page-cache.
DURABILITY_DEFAULT = "page-cache"
# With less, compaction would need a pass for every few thousand keys.
CLEANER_BYTES_PER_THREAD_MIN = 1024 * 1024

KEYS: tuple[Key, ...] = (
    cluster_wide("compression.gzip.level", INT, -1, Between(1, 9, beside=-1)).now(
        "The level when compression.type is gzip; -1 is gzip's own default."
    ),
    cluster_wide("compression.lz4.level", INT, 9, between(1, 17)).now(
        "The level when compression.type is lz4. As in Kafka 9 is the fast compressor; every other "
        "level packs tighter and takes several times as long."
    ),
    cluster_wide(
        "compression.type",
        STRING,
        "producer",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    ).now(
        "How batches are stored: as the producer sent them (producer), or in one codec. Batches in "
        "another codec are recompressed beside the loop, in their order; max.message.bytes holds "
        "before and after that."
    ),
    cluster_wide("compression.zstd.level", INT, 3, between(-131_072, 22)).now(
        "The level when compression.type is zstd."
    ),
    per_broker("cordoned.log.dirs", LIST, ()).later(
        "Directories that get no new partitions; '*' means all."
    ),
    cluster_wide("log.cleaner.backoff.ms", LONG, 15000, at_least(0)).now(
        "How long compaction sleeps when there is nothing to do."
    ),
    cluster_wide(
        "log.cleaner.dedupe.buffer.size", LONG, 134_217_728, at_least(CLEANER_BYTES_PER_THREAD_MIN)
    ).now(
        "Memory for the keys of one round of compaction, shared by log.cleaner.threads; at least 1 "
        "MiB for each of them."
    ),
    cluster_wide("log.cleaner.delete.retention.ms", LONG, 86_400_000, at_least(0)).now(
        "How long compaction keeps tombstones, so that slow readers still see the deletion."
    ),
    read_only("log.cleaner.enable", BOOLEAN, True).now(
        "Whether logs are compacted where their topics ask for it."
    ),
    cluster_wide("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, between(0.01, 1)).now(
        "How full the table of keys may become."
    ),
    cluster_wide("log.cleaner.io.buffer.size", INT, 524_288, at_least(0)).never(
        "Memory for reading and writing while compacting."
    ),
    cluster_wide("log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, at_least(1)).now(
        "The rate at which compaction may read and write."
    ),
    cluster_wide("log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, at_least(1)).now(
        "After this time a record is compacted even if little else has changed."
    ),
    cluster_wide("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, between(0, 1)).now(
        "The share of uncompacted bytes at which a log is worth compacting."
    ),
    cluster_wide("log.cleaner.min.compaction.lag.ms", LONG, 0, at_least(0)).now(
        "A record is not compacted before it is this old."
    ),
    cluster_wide("log.cleaner.threads", INT, 1, at_least(1)).now(
        "How many partitions are compacted at a time."
    ),
    cluster_wide(
        "log.cleanup.policy", LIST, ("delete",), EachOf(("compact", "delete"), may_be_empty=True)
    ).now(
        "What happens to old segments: delete them, compact them to the last value of each key, or "
        "both. Empty keeps everything."
    ),
    read_only("log.dir", LIST, ("/tmp/kafka-logs",)).now(
        "Where the data is, when log.dirs is not set."
    ),
    read_only("log.dir.failure.timeout.ms", LONG, 30000, at_least(1)).later(
        "How long a broker may be unable to report a failed directory before it stops."
    ),
    read_only("log.dirs", LIST, None, synonyms=(("log.dir", 1),)).now(
        "The directories for the data, separated by commas. A new partition goes to the one with "
        "the fewest partitions."
    ),
    cluster_wide("log.disk.reserve.bytes", LONG, 128 * 1024 * 1024, at_least(0)).now(
        "When less than this is free on the disk of a log directory (or less than a twentieth of "
        "the disk, if that is less), records are rejected until there is room again. The metadata "
        "log and deletions may use what is left. 0 lets records fill the disk."
    ),
    read_only("log.durability", STRING, DURABILITY_DEFAULT, OneOf(("fsync", "page-cache"))).now(
        "What an acknowledgement with acks=all means. fsync: the record is on the disk, one sync "
        "serving all that wait, and consumers see nothing that is not. page-cache: it is in the "
        "operating system's memory and on the replicas, as Kafka does it."
    ),
    read_only("log.dirs.group.access", BOOLEAN, False).now(
        "Whether the group of the operating system's user may read the data. New directories get "
        "the mode 0750 and new files 0640; without this 0700 and 0600. What is there keeps its "
        "mode."
    ),
    cluster_wide("log.flush.interval.messages", LONG, LONG_MAX, at_least(1)).now(
        "Sync a partition to the disk after this many records; the one that makes them so many is "
        "not acknowledged before. Under log.durability=fsync every record is synced anyway."
    ),
    cluster_wide(
        "log.flush.interval.ms", LONG, None, synonyms=(("log.flush.scheduler.interval.ms", 1),)
    ).now(
        "Sync a partition to the disk when its oldest unsynced record is this old. "
        "Acknowledgements do not wait for it. Under log.durability=fsync every record is synced "
        "anyway."
    ),
    read_only("log.flush.offset.checkpoint.interval.ms", INT, 60000, at_least(0)).now(
        "How often the recovery points are written down. A start after a crash checks what comes "
        "after them."
    ),
    read_only("log.flush.scheduler.interval.ms", LONG, LONG_MAX).now(
        "How often to look for partitions that are due to be synced; if it is not set, each is "
        "synced at its time. Also the value of log.flush.interval.ms when that is not set."
    ),
    read_only("log.flush.start.offset.checkpoint.interval.ms", INT, 60000, at_least(0)).now(
        "How often the start offsets of the partitions are written down; 0 is at a clean stop and "
        "after DeleteRecords only."
    ),
    cluster_wide("log.index.interval.bytes", INT, 4096, at_least(0)).now(
        "One index entry per this many bytes of records."
    ),
    cluster_wide("log.index.size.max.bytes", INT, 10_485_760, at_least(4)).now(
        "The largest size of an index file; a full index closes the segment."
    ),
    read_only("log.initial.task.delay.ms", LONG, 30000, at_least(0), internal=True).now(
        "How long the first look at retention, and the first checkpoint of recovery points and log "
        "starts, wait after the start, where their own interval is longer."
    ),
    cluster_wide("log.local.retention.bytes", LONG, -2, at_least(-2)).later(
        "With tiered storage: the size to keep locally; -2 is log.retention.bytes."
    ),
    cluster_wide("log.local.retention.ms", LONG, -2, at_least(-2)).later(
        "With tiered storage: how long to keep locally; -2 is log.retention.ms."
    ),
    cluster_wide("log.message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0)).now(
        "How far a record's timestamp may lie in the future; later ones are rejected."
    ),
    cluster_wide("log.message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0)).now(
        "How far a record's timestamp may lie in the past; older ones are rejected."
    ),
    cluster_wide(
        "log.message.timestamp.type", STRING, "CreateTime", OneOf(("CreateTime", "LogAppendTime"))
    ).now(
        "Whether a record carries the time its producer gave it (CreateTime) or the time of its "
        "append (LogAppendTime)."
    ),
    cluster_wide("log.preallocate", BOOLEAN, False).now(
        "Reserve the space of a new segment at once; what is left over is given back when it is "
        "closed. The file itself grows as it is written."
    ),
    cluster_wide("log.retention.bytes", LONG, -1).now(
        "The size a partition may keep; older segments are deleted. -1 is no limit."
    ),
    read_only("log.retention.check.interval.ms", LONG, 300_000, at_least(1)).now(
        "How often to look for segments that may be deleted."
    ),
    read_only("log.retention.hours", INT, 168).now("How long segments are kept, in hours."),
    read_only("log.retention.minutes", INT, None, synonyms=(("log.retention.hours", 60),)).now(
        "How long segments are kept, in minutes; comes before log.retention.hours."
    ),
    cluster_wide(
        "log.retention.ms",
        LONG,
        None,
        synonyms=(("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    ).now(
        "How long segments are kept, by the largest timestamp in them, or their last write where "
        "there is none. A timestamp from the future counts as the last write plus what "
        "log.message.timestamp.after.max.ms lets through, at most twice this time in all. Comes "
        "before log.retention.minutes and log.retention.hours; -1 is for ever."
    ),
    read_only("log.roll.hours", INT, 168, at_least(1)).now(
        "The age at which a segment is closed, in hours."
    ),
    read_only("log.roll.jitter.hours", INT, 0, at_least(0)).now("As log.roll.jitter.ms, in hours."),
    cluster_wide(
        "log.roll.jitter.ms", LONG, None, at_least(0), (("log.roll.jitter.hours", 3_600_000),)
    ).now(
        "A random part of up to this is taken off the age at which segments are closed, so that "
        "not all roll at once."
    ),
    cluster_wide("log.roll.ms", LONG, None, at_least(1), (("log.roll.hours", 3_600_000),)).now(
        "The age at which a segment is closed, with the first record that comes after that; comes "
        "before log.roll.hours."
    ),
    cluster_wide("log.segment.bytes", INT, 1_073_741_824, at_least(1_048_576)).now(
        "The size at which a segment is closed and the next one begins."
    ),
    cluster_wide("log.segment.delete.delay.ms", LONG, 60000, at_least(0)).now(
        "How long a deleted segment keeps its file, so that readers can finish."
    ),
    cluster_wide("message.max.bytes", INT, 1_048_588, at_least(0)).now(
        "The largest record batch a producer may send, after compression; also of what the topic's "
        "compression.type makes of it."
    ),
    cluster_wide("num.recovery.threads.per.data.dir", INT, 2, at_least(1)).never(
        "In Kafka, how many partitions of a directory are checked at a time after a crash. Here "
        "they are checked one after the other, which costs a processor and not the disk."
    ),
    read_only(
        "producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), internal=True
    ).now("How often to look for producers that have gone silent."),
    cluster_wide("producer.id.expiration.ms", INT, 86_400_000, at_least(1)).now(
        "How long a partition remembers an idempotent producer that has gone silent."
    ),
)
