"""Keys of a client metrics subscription (KIP-714). Telemetry itself is not served yet."""

from penstock.config.key import INT, LIST, Key, cluster_wide

INTERVAL_MS = "interval.ms"
MATCH = "match"
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
MATCH_NAMES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

KEYS: tuple[Key, ...] = (
    cluster_wide(INTERVAL_MS, INT, 300_000).later("How often matching clients push their metrics."),
    cluster_wide(MATCH, LIST, ()).later(
        "The clients that push: a list of name=pattern; empty means all clients."
    ),
    cluster_wide("metrics", LIST, ()).later("Prefixes of the metrics to push."),
)
