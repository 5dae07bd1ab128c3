"""Keys of the connection to a cluster, shared by producers and consumers."""

from penstock.client.settings.row import (
    BOOLEAN,
    INT_MAX,
    LIST,
    LONG_MAX,
    NO_EFFECT,
    OURS,
    PASSED,
    REFUSED,
    TEXT,
    TRANSLATED,
    WHOLE,
    SettingRow,
)

SOCKET_BYTES_MAX = 100_000_000
BACKOFF_MS_MAX = 3_600_000
RETRY_BACKOFF_MS_MAX = 300_000
METADATA_MS_MAX = 3_600_000
_METRICS = (
    "The client keeps no such metrics; librdkafka's come by statistics.interval.ms and stats_cb"
)

BOOTSTRAP = SettingRow(
    "bootstrap.servers", LIST, PASSED, "Where the cluster is found, e.g. 127.0.0.1:9092"
)
CLIENT_ID = SettingRow(
    "client.id", TEXT, PASSED, "What brokers call the client in logs and quotas", "penstock"
)
NAMESPACE = SettingRow(
    "namespace",
    TEXT,
    OURS,
    "Of Penstock: a prefix before topics, groups and transactional ids, e.g. dev.",
)

METRICS_KEYS = (
    SettingRow("metrics.num.samples", WHOLE, NO_EFFECT, _METRICS, low=1),
    SettingRow(
        "metrics.recording.level",
        TEXT,
        NO_EFFECT,
        _METRICS,
        words=("INFO", "DEBUG", "TRACE"),
    ),
    SettingRow("metrics.sample.window.ms", WHOLE, NO_EFFECT, _METRICS, low=0),
    SettingRow(
        "metric.reporters",
        LIST,
        REFUSED,
        "Java classes cannot run here; set statistics.interval.ms and give stats_cb a function",
        harmless=("", "org.apache.kafka.common.metrics.JmxReporter"),
    ),
)

CONFIG_PROVIDERS = SettingRow(
    "config.providers",
    LIST,
    REFUSED,
    "Java classes cannot run here; read the values (os.environ, a file) before you give them",
    harmless=("",),
)

KEYS = (
    BOOTSTRAP,
    CLIENT_ID,
    SettingRow(
        "client.dns.lookup",
        TEXT,
        PASSED,
        "How the addresses behind a name are used",
        "use_all_dns_ips",
        words=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    CONFIG_PROVIDERS,
    SettingRow(
        "connections.max.idle.ms",
        WHOLE,
        TRANSLATED,
        "When an idle connection is closed; below 0 never, which librdkafka calls 0",
        "never",
        low=-LONG_MAX,
    ),
    SettingRow(
        "enable.metrics.push",
        BOOLEAN,
        PASSED,
        "Whether the cluster may ask for the client's metrics",
        "true",
    ),
    SettingRow(
        "metadata.max.age.ms",
        WHOLE,
        TRANSLATED,
        "Metadata is asked for again after this: topic.metadata.refresh.interval.ms, and three "
        "times as long as librdkafka's metadata.max.age.ms",
        "300000",
        low=0,
    ),
    SettingRow(
        "metadata.recovery.strategy",
        TEXT,
        PASSED,
        "Whether a client that knows no broker any more begins again with bootstrap.servers; of a "
        "transactional producer none unless told, as librdkafka can lose its transaction by that",
        "rebootstrap",
        words=("none", "rebootstrap"),
    ),
    SettingRow(
        "metadata.recovery.rebootstrap.trigger.ms",
        WHOLE,
        PASSED,
        "After how long without metadata it begins again",
        "300000",
        low=0,
        most=INT_MAX,
    ),
    *METRICS_KEYS,
    NAMESPACE,
    SettingRow(
        "receive.buffer.bytes",
        WHOLE,
        TRANSLATED,
        "The socket's receive buffer; -1 leaves it to the system",
        "the system's",
        low=-1,
        becomes="socket.receive.buffer.bytes",
        least=0,
        most=SOCKET_BYTES_MAX,
    ),
    SettingRow(
        "send.buffer.bytes",
        WHOLE,
        TRANSLATED,
        "The socket's send buffer; -1 leaves it to the system",
        "the system's",
        low=-1,
        becomes="socket.send.buffer.bytes",
        least=0,
        most=SOCKET_BYTES_MAX,
    ),
    SettingRow(
        "reconnect.backoff.ms",
        WHOLE,
        PASSED,
        "The first pause before a broker is connected to again",
        "50",
        low=0,
        most=BACKOFF_MS_MAX,
    ),
    SettingRow(
        "reconnect.backoff.max.ms",
        WHOLE,
        PASSED,
        "The longest such pause; reconnect.backoff.ms alone sets both, as in Kafka",
        "1000",
        low=0,
        most=BACKOFF_MS_MAX,
    ),
    SettingRow(
        "request.timeout.ms",
        WHOLE,
        TRANSLATED,
        "How long an answer is waited for: socket.timeout.ms, of producers also their own "
        "request.timeout.ms",
        "30000",
        low=0,
    ),
    SettingRow(
        "retry.backoff.ms",
        WHOLE,
        PASSED,
        "The first pause before a request is sent again",
        "100",
        low=0,
        least=1,
        most=RETRY_BACKOFF_MS_MAX,
    ),
    SettingRow(
        "retry.backoff.max.ms",
        WHOLE,
        PASSED,
        "The longest such pause",
        "1000",
        low=0,
        least=1,
        most=RETRY_BACKOFF_MS_MAX,
    ),
    SettingRow(
        "socket.connection.setup.timeout.ms",
        WHOLE,
        PASSED,
        "How long a connection may take until it works",
        "10000",
        low=0,
        least=1000,
        most=INT_MAX,
    ),
    SettingRow(
        "socket.connection.setup.timeout.max.ms",
        WHOLE,
        NO_EFFECT,
        "librdkafka does not lengthen socket.connection.setup.timeout.ms when it fails",
        low=0,
    ),
)
