"""The connection keys that producers and consumers share, for librdkafka."""

from penstock.client.settings.key_reader import ConfiguredKeys
from penstock.client.settings.keys_connection import (
    BACKOFF_MS_MAX,
    METADATA_MS_MAX,
)
from penstock.client.settings.keys_connection import RETRY_BACKOFF_MS_MAX as RETRY_MS_MOST
from penstock.client.settings.row import INT_MAX
from penstock.client.settings.values import RdkafkaValue

CLIENT_ID = "penstock"
SOCKET_TIMEOUT_MS_LEAST = 10
SOCKET_TIMEOUT_MS_MOST = 300_000
RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MS_MAX = 1_000
RETRY_BACKOFF_MS_MAX = 1_000
SETUP_TIMEOUT_MS = 10_000
METADATA_MS_LEAST = 10
METADATA_AGE_MS_MOST = 86_400_000


def rdkafka_connection(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    """Return the translated keys, with Kafka's defaults if librdkafka's differ."""
    told: dict[str, RdkafkaValue] = {
        "client.id": said.text("client.id") or CLIENT_ID,
        "client.software.name": "penstock",
        **_reconnecting(said),
        **_metadata(said),
    }
    if not said.has("socket.connection.setup.timeout.ms"):
        told["socket.connection.setup.timeout.ms"] = SETUP_TIMEOUT_MS
    told["socket.timeout.ms"] = min(
        max(said.whole("request.timeout.ms"), SOCKET_TIMEOUT_MS_LEAST),
        SOCKET_TIMEOUT_MS_MOST,
    )
    if said.has("connections.max.idle.ms"):
        idle_ms = said.whole("connections.max.idle.ms", -1)
        # "Never" is below 0 in Kafka and 0 in librdkafka; 0 in Kafka means at once.
        told["connections.max.idle.ms"] = 0 if idle_ms < 0 else min(max(idle_ms, 1), INT_MAX)
    if said.has("retry.backoff.ms") and not said.has("retry.backoff.max.ms"):
        shortest = max(said.whole("retry.backoff.ms", 1), 1)
        told["retry.backoff.max.ms"] = min(max(shortest, RETRY_BACKOFF_MS_MAX), RETRY_MS_MOST)
    return told


def _reconnecting(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    """Return the reconnect pauses. If only the first is configured, the longest is the same, as in
    Kafka."""
    first, longest = "reconnect.backoff.ms", "reconnect.backoff.max.ms"
    if said.has(first):
        least = min(said.whole(first, 0), BACKOFF_MS_MAX)
        most = min(said.whole(longest, least), BACKOFF_MS_MAX)
    else:
        most = min(said.whole(longest, RECONNECT_BACKOFF_MS_MAX), BACKOFF_MS_MAX)
        least = min(RECONNECT_BACKOFF_MS, most)
    if most < least:
        said.note(longest, f"{most} is taken as {least}: it is below {first}")
    return {first: least, longest: max(least, most)}


def _metadata(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    if not said.has("metadata.max.age.ms"):
        return {}
    every_ms = min(max(said.whole("metadata.max.age.ms", 0), METADATA_MS_LEAST), METADATA_MS_MAX)
    return {
        "topic.metadata.refresh.interval.ms": every_ms,
        "metadata.max.age.ms": min(every_ms * 3, METADATA_AGE_MS_MOST),
    }
