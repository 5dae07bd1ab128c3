"""Keys of producers."""

from penstock.client.settings.row import (
    BOOLEAN,
    CLASS,
    INT_MAX,
    LIST,
    NUMBER,
    TEXT,
    WHOLE,
    no_effect,
    ours,
    passed,
    refused,
    translated,
)

LINGER_MS_MAX = 900_000
REQUEST_BYTES_LEAST = 1_000
REQUEST_BYTES_MOST = 1_000_000_000
LEVEL_MOST = 12
_ADAPTIVE = "librdkafka does not look at how fast brokers are when it chooses a partition"

KEYS = (
    passed("acks", TEXT, "all", words=("all", "-1", "0", "1")).described(
        "Who has to have a record before it counts: all in sync, the leader (1), nobody (0)"
    ),
    passed("batch.size", WHOLE, "1000000", low=0, least=1, most=INT_MAX).described(
        "How many bytes a batch may have; 0 sends every record alone. librdkafka's default is "
        "kept, which is larger than Kafka's 16384"
    ),
    ours("buffer.memory", WHOLE, "33554432", low=0).described(
        "How many bytes of records may wait; also librdkafka's queue.buffering.max.kbytes"
    ),
    passed(
        "compression.type", TEXT, "none", words=("none", "gzip", "snappy", "lz4", "zstd")
    ).described("How batches are compressed"),
    translated("compression.gzip.level", WHOLE, "-1", low=-1, high=9).described(
        "compression.level, if gzip is chosen"
    ),
    translated("compression.lz4.level", WHOLE, "-1", low=1, high=17).described(
        "compression.level, if lz4 is chosen; librdkafka goes to 12"
    ),
    translated("compression.zstd.level", WHOLE, "-1", low=-131072, high=22).described(
        "compression.level, if zstd is chosen; librdkafka goes from 1 to 12"
    ),
    translated("delivery.timeout.ms", WHOLE, "120000", low=0, high=INT_MAX).described(
        "Until when a record has to be delivered; in transactions at most transaction.timeout.ms"
    ),
    passed("enable.idempotence", BOOLEAN, "true").described(
        "Whether a record that is sent again is written once; off by itself where acks, retries or "
        "max.in.flight.requests.per.connection exclude it, as in Kafka"
    ),
    ours("interceptor.classes", LIST).described(
        "Objects, classes, or Python paths of them (penstock.client.interceptors)"
    ),
    ours("key.serializer", CLASS).described(
        "An object, a function, a type, a Python path, or Java's name of one of its own; "
        "without one keys are bytes or text"
    ),
    ours("value.serializer", CLASS).described(
        "An object, a function, a type, a Python path, or Java's name of one of its own; "
        "without one values are bytes or text"
    ),
    passed("linger.ms", NUMBER, "5", low=0, most=LINGER_MS_MAX).described(
        "How long a batch waits for more records"
    ),
    ours("max.block.ms", WHOLE, "60000", low=0).described(
        "How long sending may wait for room or metadata"
    ),
    passed("max.in.flight.requests.per.connection", WHOLE, "5", low=1, most=1_000_000).described(
        "How many requests may be unanswered; at most 5 with idempotence"
    ),
    translated("max.request.size", WHOLE, "1048576", low=0).described(
        "The largest record and request: message.max.bytes"
    ),
    no_effect("metadata.max.idle.ms", WHOLE, low=5000).described(
        "librdkafka keeps the topics that it has been told of"
    ),
    ours("partitioner.class", CLASS, "murmur2, sticky without a key").described(
        "A function (topic, key, value, partitions), a Python path, or a name: murmur2_random "
        "(Kafka's default), round_robin, uniform_sticky, librdkafka's, or Java's of its own"
    ),
    ours("partitioner.ignore.keys", BOOLEAN, "false").described(
        "Whether the default partitioner pays no heed to keys"
    ),
    no_effect("partitioner.adaptive.partitioning.enable", BOOLEAN).described(_ADAPTIVE),
    no_effect("partitioner.availability.timeout.ms", WHOLE, low=0).described(_ADAPTIVE),
    passed("retries", WHOLE, "2147483647", low=0, high=INT_MAX).described(
        "How often a record is sent again; delivery.timeout.ms is the better limit"
    ),
    passed("transaction.timeout.ms", WHOLE, "60000", low=1, least=1000, most=INT_MAX).described(
        "After how long the cluster aborts a transaction that nobody ends"
    ),
    passed("transactional.id", TEXT).described(
        "Makes the producer transactional; the namespace goes before it"
    ),
    refused("transaction.two.phase.commit.enable", BOOLEAN, harmless=("false",)).described(
        "librdkafka has no two-phase commit; the Spark sink has one of its own"
    ),
)
