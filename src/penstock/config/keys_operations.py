"""Broker keys of metrics, quotas and plug-ins."""

from penstock.config.allowed import HostPort, at_least
from penstock.config.key import CLASS, INT, LIST, LONG, STRING, Key, cluster_wide, read_only

# The usual port of Kafka's JMX exporter, which scrapers know; reachable from this machine only.
METRICS_LISTENER_DEFAULT = "127.0.0.1:9404"

KEYS: tuple[Key, ...] = (
    read_only("alter.config.policy.class.name", CLASS, None).never(
        "A Java class that may reject changes of configuration."
    ),
    read_only("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1)),
    read_only("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1)),
    read_only("client.quota.callback.class", CLASS, None).never(
        "A Java class that decides quotas."
    ),
    cluster_wide("config.providers", LIST, ()).later(
        "Where values of the form ${name:path:key} are looked up."
    ),
    read_only("controller.quota.window.num", INT, 11, at_least(1)).now(
        "How many windows of created and deleted partitions a client may use at once."
    ),
    read_only("controller.quota.window.size.seconds", INT, 1, at_least(1)).now(
        "The length of one such window."
    ),
    read_only("create.topic.policy.class.name", CLASS, None).never(
        "A Java class that may reject new topics."
    ),
    read_only("kafka.metrics.polling.interval.secs", INT, 10, at_least(1)),
    read_only("kafka.metrics.reporters", LIST, ()).never("Java classes that receive metrics."),
    cluster_wide("metric.reporters", LIST, ()).never("Java classes that receive metrics."),
    read_only("metrics.listener", STRING, METRICS_LISTENER_DEFAULT, HostPort()).now(
        "Where /metrics, /health/live, /health/ready and /status are served by HTTP, without "
        "authentication. If the address is in use, the node does not start; with the default "
        "address it logs a warning and starts without."
    ),
    read_only("metrics.num.samples", INT, 2, at_least(1)).never(
        "How many windows rates are averaged over; counters are served here, and the collector "
        "computes rates."
    ),
    read_only("metrics.recording.level", STRING, "INFO").never(
        "Which metrics are recorded; here all are."
    ),
    read_only("metrics.sample.window.ms", LONG, 30000, at_least(1)).never(
        "The length of one such window."
    ),
    read_only("quota.window.num", INT, 11, at_least(1)).now(
        "How many windows a quota is averaged over."
    ),
    read_only("quota.window.size.seconds", INT, 1, at_least(1)).now(
        "The length of one such window."
    ),
    read_only("replication.quota.window.num", INT, 11, at_least(1)),
    read_only("replication.quota.window.size.seconds", INT, 1, at_least(1)),
    read_only("telemetry.max.bytes", INT, 1_048_576, at_least(1)).later(
        "The most metrics that a client may push at a time."
    ),
)
