"""Keys of consumers."""

from penstock.client.settings.row import (
    BOOLEAN,
    CLASS,
    INT_MAX,
    LIST,
    NO_EFFECT,
    OURS,
    PASSED,
    REFUSED,
    TEXT,
    TRANSLATED,
    WHOLE,
    SettingRow,
)

_SHARE = "It is for share groups, which this consumer does not join; remove it"
_INTERNAL = "It is of Kafka's own making and not for use"

KEYS = (
    SettingRow(
        "allow.auto.create.topics",
        BOOLEAN,
        PASSED,
        "Whether subscribing to a topic may create it, where brokers allow that",
        "true",
    ),
    SettingRow(
        "auto.commit.interval.ms",
        WHOLE,
        OURS,
        "How often finished records are committed; 0 after every one that is finished",
        "5000",
        low=0,
    ),
    SettingRow(
        "auto.offset.reset",
        TEXT,
        TRANSLATED,
        "Where a group begins that has no offset: earliest, latest, none (NoOffset is raised), or "
        "by_duration:PT1H. librdkafka gets `error` for the last two",
        "latest",
    ),
    SettingRow(
        "check.crcs",
        BOOLEAN,
        PASSED,
        "Whether batches are checked against their checksum",
        "true",
    ),
    SettingRow(
        "client.rack", TEXT, PASSED, "Where the client is, so that it reads from a near replica"
    ),
    SettingRow(
        "default.api.timeout.ms",
        WHOLE,
        OURS,
        "How long calls without a time of their own may take",
        "60000",
        low=0,
    ),
    SettingRow(
        "enable.auto.commit",
        BOOLEAN,
        OURS,
        "Whether finished records are committed by themselves; false without a group, as in Kafka",
        "true",
    ),
    SettingRow(
        "exclude.internal.topics",
        BOOLEAN,
        OURS,
        "Whether a pattern passes over the topics that the cluster keeps for itself",
        "true",
    ),
    SettingRow(
        "fetch.max.bytes",
        WHOLE,
        TRANSLATED,
        "How many bytes an answer may have; message.max.bytes follows it downwards",
        "52428800",
        low=0,
    ),
    SettingRow(
        "fetch.max.wait.ms",
        WHOLE,
        TRANSLATED,
        "How long a broker waits for fetch.min.bytes",
        "500",
        low=0,
        becomes="fetch.wait.max.ms",
        most=300_000,
    ),
    SettingRow(
        "fetch.min.bytes",
        WHOLE,
        PASSED,
        "How many bytes a broker waits for",
        "1",
        low=0,
        least=1,
        most=100_000_000,
    ),
    SettingRow("group.id", TEXT, PASSED, "The group; the namespace goes before it"),
    SettingRow(
        "group.instance.id", TEXT, PASSED, "A name that outlives the process: a static member"
    ),
    SettingRow(
        "group.protocol",
        TEXT,
        PASSED,
        "classic, or consumer: then the brokers assign partitions",
        "classic",
        words=("classic", "consumer"),
    ),
    SettingRow(
        "group.remote.assignor",
        TEXT,
        PASSED,
        "Which assignor of the brokers is used; only with group.protocol=consumer",
    ),
    SettingRow(
        "heartbeat.interval.ms",
        WHOLE,
        PASSED,
        "How often a member shows that it is there. Refused with group.protocol=consumer",
        "3000",
        least=1,
        most=3_600_000,
    ),
    SettingRow(
        "interceptor.classes",
        LIST,
        OURS,
        "Objects, classes, or Python paths of them (penstock.client.interceptors)",
    ),
    SettingRow(
        "isolation.level",
        TEXT,
        PASSED,
        "read_committed passes over records of transactions that are open or were aborted",
        "read_uncommitted",
        words=("read_uncommitted", "read_committed"),
    ),
    SettingRow(
        "key.deserializer",
        CLASS,
        OURS,
        "An object, a function, a type, a Python path, or Java's name of one of its own; "
        "without one keys are bytes",
    ),
    SettingRow(
        "value.deserializer",
        CLASS,
        OURS,
        "An object, a function, a type, a Python path, or Java's name of one of its own; "
        "without one values are bytes",
    ),
    SettingRow(
        "max.partition.fetch.bytes",
        WHOLE,
        PASSED,
        "How many bytes of one partition an answer may have",
        "1048576",
        low=0,
        least=1,
        most=1_000_000_000,
    ),
    SettingRow(
        "max.poll.interval.ms",
        WHOLE,
        TRANSLATED,
        "How long a member may take to give partitions back in a rebalance. A slow handler does "
        "not lose its place: handler.timeout.ms limits it",
        "300000",
        low=1,
    ),
    SettingRow(
        "max.poll.records",
        WHOLE,
        OURS,
        "How many records are taken over at a time",
        "500",
        low=1,
    ),
    SettingRow(
        "handler.timeout.ms",
        WHOLE,
        OURS,
        "Of Penstock: how long the body of the loop may work on a record before it is cancelled",
        "600000",
        low=1,
    ),
    SettingRow(
        "revoke.timeout.ms",
        WHOLE,
        OURS,
        "Of Penstock: how long it may go on when its partition is taken away",
        "30000",
        low=0,
    ),
    SettingRow(
        "partition.assignment.strategy",
        LIST,
        TRANSLATED,
        "range, roundrobin, cooperative-sticky, or Java's names of them. librdkafka does not mix "
        "cooperative-sticky with others: beside them it is left out. Refused with "
        "group.protocol=consumer",
        "range,roundrobin",
    ),
    SettingRow(
        "session.timeout.ms",
        WHOLE,
        PASSED,
        "After how long without a heartbeat a member is given up. Refused with "
        "group.protocol=consumer",
        "45000",
        least=1,
        most=3_600_000,
    ),
    SettingRow("share.acknowledgement.mode", TEXT, REFUSED, _SHARE, harmless=("implicit",)),
    SettingRow(
        "share.acquire.mode", TEXT, REFUSED, _SHARE, harmless=("batch_optimized", "BATCH_OPTIMIZED")
    ),
    SettingRow(
        "internal.throw.on.fetch.stable.offset.unsupported",
        BOOLEAN,
        NO_EFFECT,
        _INTERNAL,
    ),
)
FETCH_BYTES_MOST = INT_MAX - 512
