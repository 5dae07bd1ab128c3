"""Keys of consumers."""

from penstock.client.settings.row import (
    BOOLEAN,
    CLASS,
    INT_MAX,
    LIST,
    TEXT,
    WHOLE,
    no_effect,
    ours,
    passed,
    refused,
    translated,
)

_SHARE = "It is for share groups, which this consumer does not join; remove it"
_INTERNAL = "It is of Kafka's own making and not for use"

KEYS = (
    passed("allow.auto.create.topics", BOOLEAN, "true").described(
        "Whether subscribing to a topic may create it, where brokers allow that"
    ),
    ours("auto.commit.interval.ms", WHOLE, "5000", low=0).described(
        "How often finished records are committed; 0 after every one that is finished"
    ),
    translated("auto.offset.reset", TEXT, "latest").described(
        "Where a group begins that has no offset: earliest, latest, none (NoOffset is raised), or "
        "by_duration:PT1H. librdkafka gets `error` for the last two"
    ),
    passed("check.crcs", BOOLEAN, "true").described(
        "Whether batches are checked against their checksum"
    ),
    passed("client.rack", TEXT).described(
        "Where the client is, so that it reads from a near replica"
    ),
    ours("default.api.timeout.ms", WHOLE, "60000", low=0).described(
        "How long calls without a time of their own may take"
    ),
    ours("enable.auto.commit", BOOLEAN, "true").described(
        "Whether finished records are committed by themselves; false without a group, as in Kafka"
    ),
    ours("exclude.internal.topics", BOOLEAN, "true").described(
        "Whether a pattern passes over the topics that the cluster keeps for itself"
    ),
    translated("fetch.max.bytes", WHOLE, "52428800", low=0).described(
        "How many bytes an answer may have; message.max.bytes follows it downwards"
    ),
    translated(
        "fetch.max.wait.ms", WHOLE, "500", low=0, becomes="fetch.wait.max.ms", most=300_000
    ).described("How long a broker waits for fetch.min.bytes"),
    passed("fetch.min.bytes", WHOLE, "1", low=0, least=1, most=100_000_000).described(
        "How many bytes a broker waits for"
    ),
    passed("group.id", TEXT).described("The group; the namespace goes before it"),
    passed("group.instance.id", TEXT).described(
        "A name that outlives the process: a static member"
    ),
    passed("group.protocol", TEXT, "classic", words=("classic", "consumer")).described(
        "classic, or consumer: then the brokers assign partitions"
    ),
    passed("group.remote.assignor", TEXT).described(
        "Which assignor of the brokers is used; only with group.protocol=consumer"
    ),
    passed("heartbeat.interval.ms", WHOLE, "3000", least=1, most=3_600_000).described(
        "How often a member shows that it is there. Refused with group.protocol=consumer"
    ),
    ours("interceptor.classes", LIST).described(
        "Objects, classes, or Python paths of them (penstock.client.interceptors)"
    ),
    passed(
        "isolation.level", TEXT, "read_uncommitted", words=("read_uncommitted", "read_committed")
    ).described("read_committed passes over records of transactions that are open or were aborted"),
    ours("key.deserializer", CLASS).described(
        "An object, a function, a type, a Python path, or Java's name of one of its own; "
        "without one keys are bytes"
    ),
    ours("value.deserializer", CLASS).described(
        "An object, a function, a type, a Python path, or Java's name of one of its own; "
        "without one values are bytes"
    ),
    passed(
        "max.partition.fetch.bytes", WHOLE, "1048576", low=0, least=1, most=1_000_000_000
    ).described("How many bytes of one partition an answer may have"),
    translated("max.poll.interval.ms", WHOLE, "300000", low=1).described(
        "How long a member may take to give partitions back in a rebalance. A slow handler does "
        "not lose its place: handler.timeout.ms limits it"
    ),
    ours("max.poll.records", WHOLE, "500", low=1).described(
        "How many records are taken over at a time"
    ),
    ours("handler.timeout.ms", WHOLE, "600000", low=1).described(
        "Of Penstock: how long the body of the loop may work on a record before it is cancelled"
    ),
    ours("revoke.timeout.ms", WHOLE, "30000", low=0).described(
        "Of Penstock: how long it may go on when its partition is taken away"
    ),
    translated("partition.assignment.strategy", LIST, "range,roundrobin").described(
        "range, roundrobin, cooperative-sticky, or Java's names of them. librdkafka does not mix "
        "cooperative-sticky with others: beside them it is left out. Refused with "
        "group.protocol=consumer"
    ),
    passed("session.timeout.ms", WHOLE, "45000", least=1, most=3_600_000).described(
        "After how long without a heartbeat a member is given up. Refused with "
        "group.protocol=consumer"
    ),
    refused("share.acknowledgement.mode", TEXT, harmless=("implicit",)).described(_SHARE),
    refused("share.acquire.mode", TEXT, harmless=("batch_optimized", "BATCH_OPTIMIZED")).described(
        _SHARE
    ),
    no_effect("internal.throw.on.fetch.stable.offset.unsupported", BOOLEAN).described(_INTERNAL),
)
FETCH_BYTES_MOST = INT_MAX - 512
