"""Keys of the connection to a cluster, shared by producers and consumers."""

from penstock.client.settings.row import (
    BOOLEAN,
    INT_MAX,
    LIST,
    LONG_MAX,
    TEXT,
    WHOLE,
    no_effect,
    ours,
    passed,
    refused,
    translated,
)

SOCKET_BYTES_MAX = 100_000_000
BACKOFF_MS_MAX = 3_600_000
RETRY_BACKOFF_MS_MAX = 300_000
METADATA_MS_MAX = 3_600_000
_METRICS = (
    "The client keeps no such metrics; librdkafka's come by statistics.interval.ms and stats_cb"
)

BOOTSTRAP = passed("bootstrap.servers", LIST).described(
    "Where the cluster is found, e.g. 127.0.0.1:9092"
)
CLIENT_ID = passed("client.id", TEXT, "penstock").described(
    "What brokers call the client in logs and quotas"
)
NAMESPACE = ours("namespace", TEXT).described(
    "Of Penstock: a prefix before topics, groups and transactional ids, e.g. dev."
)

METRICS_KEYS = (
    no_effect("metrics.num.samples", WHOLE, low=1).described(_METRICS),
    no_effect("metrics.recording.level", TEXT, words=("INFO", "DEBUG", "TRACE")).described(
        _METRICS
    ),
    no_effect("metrics.sample.window.ms", WHOLE, low=0).described(_METRICS),
    refused(
        "metric.reporters", LIST, harmless=("", "org.apache.kafka.common.metrics.JmxReporter")
    ).described(
        "Java classes cannot run here; set statistics.interval.ms and give stats_cb a function"
    ),
)

CONFIG_PROVIDERS = refused("config.providers", LIST, harmless=("",)).described(
    "Java classes cannot run here; read the values (os.environ, a file) before you give them"
)

KEYS = (
    BOOTSTRAP,
    CLIENT_ID,
    passed(
        "client.dns.lookup",
        TEXT,
        "use_all_dns_ips",
        words=("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ).described("How the addresses behind a name are used"),
    CONFIG_PROVIDERS,
    translated("connections.max.idle.ms", WHOLE, "never", low=-LONG_MAX).described(
        "When an idle connection is closed; below 0 never, which librdkafka calls 0"
    ),
    passed("enable.metrics.push", BOOLEAN, "true").described(
        "Whether the cluster may ask for the client's metrics"
    ),
    translated("metadata.max.age.ms", WHOLE, "300000", low=0).described(
        "Metadata is asked for again after this: topic.metadata.refresh.interval.ms, and three "
        "times as long as librdkafka's metadata.max.age.ms"
    ),
    passed(
        "metadata.recovery.strategy", TEXT, "rebootstrap", words=("none", "rebootstrap")
    ).described(
        "Whether a client that knows no broker any more begins again with bootstrap.servers; of a "
        "transactional producer none unless told, as librdkafka can lose its transaction by that"
    ),
    passed(
        "metadata.recovery.rebootstrap.trigger.ms", WHOLE, "300000", low=0, most=INT_MAX
    ).described("After how long without metadata it begins again"),
    *METRICS_KEYS,
    NAMESPACE,
    translated(
        "receive.buffer.bytes",
        WHOLE,
        "the system's",
        low=-1,
        becomes="socket.receive.buffer.bytes",
        least=0,
        most=SOCKET_BYTES_MAX,
    ).described("The socket's receive buffer; -1 leaves it to the system"),
    translated(
        "send.buffer.bytes",
        WHOLE,
        "the system's",
        low=-1,
        becomes="socket.send.buffer.bytes",
        least=0,
        most=SOCKET_BYTES_MAX,
    ).described("The socket's send buffer; -1 leaves it to the system"),
    passed("reconnect.backoff.ms", WHOLE, "50", low=0, most=BACKOFF_MS_MAX).described(
        "The first pause before a broker is connected to again"
    ),
    passed("reconnect.backoff.max.ms", WHOLE, "1000", low=0, most=BACKOFF_MS_MAX).described(
        "The longest such pause; reconnect.backoff.ms alone sets both, as in Kafka"
    ),
    translated("request.timeout.ms", WHOLE, "30000", low=0).described(
        "How long an answer is waited for: socket.timeout.ms, of producers also their own "
        "request.timeout.ms"
    ),
    passed("retry.backoff.ms", WHOLE, "100", low=0, least=1, most=RETRY_BACKOFF_MS_MAX).described(
        "The first pause before a request is sent again"
    ),
    passed(
        "retry.backoff.max.ms", WHOLE, "1000", low=0, least=1, most=RETRY_BACKOFF_MS_MAX
    ).described("The longest such pause"),
    passed(
        "socket.connection.setup.timeout.ms", WHOLE, "10000", low=0, least=1000, most=INT_MAX
    ).described("How long a connection may take until it works"),
    no_effect("socket.connection.setup.timeout.max.ms", WHOLE, low=0).described(
        "librdkafka does not lengthen socket.connection.setup.timeout.ms when it fails"
    ),
)
