"""Keys of a client metrics subscription (KIP-714). Telemetry itself is not served yet."""

from penstock.config.key import CLUSTER_WIDE, INT, LATER, LIST, Key

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
    Key(
        INTERVAL_MS,
        INT,
        300_000,
        None,
        CLUSTER_WIDE,
        LATER,
        "How often matching clients push their metrics.",
    ),
    Key(
        MATCH,
        LIST,
        (),
        None,
        CLUSTER_WIDE,
        LATER,
        "The clients that push: a list of name=pattern; empty means all clients.",
    ),
    Key("metrics", LIST, (), None, CLUSTER_WIDE, LATER, "Prefixes of the metrics to push."),
)
