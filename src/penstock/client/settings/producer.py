"""Settings of a producer, by Kafka's rules: acks=all, murmur2, idempotent unless excluded."""

import math
from collections.abc import Mapping

from penstock.client.addresses import BootstrapLike
from penstock.client.settings.key_reader import ConfiguredKeys, read
from penstock.client.settings.keys_producer import (
    LEVEL_MOST,
    REQUEST_BYTES_LEAST,
    REQUEST_BYTES_MOST,
)
from penstock.client.settings.row import INT_MAX
from penstock.client.settings.security import rdkafka_security
from penstock.client.settings.shared import rdkafka_connection
from penstock.client.settings.table import Client
from penstock.client.settings.values import (
    ProducerSettings,
    RdkafkaValue,
    SettingRefused,
    SettingValue,
)

DELIVERY_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS_LEAST = 1_000
ACK_TIMEOUT_MS_MOST = 900_000
IN_FLIGHT_MAX = 5
LINGER_MS = 5
KILOBYTES_MOST = 2**31 - 1
PROPAGATION_MS_MOST = 3_600_000
# librdkafka's partitioners; the producer runs the others itself.
DEFAULT_PARTITIONER = "murmur2_random"


def producer_settings(
    given: Mapping[str, SettingValue] | None = None, *, bootstrap: BootstrapLike | None = None
) -> ProducerSettings:
    """Return the checked settings. Raise SettingRefused with the key, the cause and the next
    step."""
    said = read(given, Client.PRODUCER, bootstrap)
    transaction_timeout_ms = max(said.whole("transaction.timeout.ms"), TRANSACTION_TIMEOUT_MS_LEAST)
    transactional_id = _transactional_id(said)
    _check_delivery_timeout(said)
    delivery_timeout_ms = _delivery_timeout_ms(said, transactional_id, transaction_timeout_ms)
    buffer_bytes = said.whole("buffer.memory")
    request_bytes = said.whole("max.request.size")
    rdkafka = {
        **said.plain_rdkafka(),
        **rdkafka_connection(said),
        **rdkafka_security(said),
        **_idempotence(said, transactional_id is not None),
        **_compression(said),
        **_request_timeout(said, transactional_id is not None, transaction_timeout_ms),
        "delivery.timeout.ms": delivery_timeout_ms,
        "message.max.bytes": min(max(request_bytes, REQUEST_BYTES_LEAST), REQUEST_BYTES_MOST),
        "partitioner": DEFAULT_PARTITIONER,
        "queue.buffering.max.kbytes": min(max(buffer_bytes // 1024, 1), KILOBYTES_MOST),
    }
    if said.has("max.block.ms"):
        # librdkafka waits this long for an unknown topic.
        rdkafka["topic.metadata.propagation.max.ms"] = min(
            said.whole("max.block.ms"), PROPAGATION_MS_MOST
        )
    if said.get("batch.size", 1) == 0:
        rdkafka["batch.num.messages"] = 1
    if transactional_id is None:
        rdkafka.pop("transactional.id", None)
    elif not said.has("metadata.recovery.strategy"):
        # While librdkafka reconnects it may forget the coordinator of an open transaction; calls
        # about the transaction then never return.
        rdkafka["metadata.recovery.strategy"] = "none"
    return ProducerSettings(
        rdkafka={**rdkafka, **said.own},
        buffer_memory_bytes=buffer_bytes,
        max_block_ms=said.whole("max.block.ms"),
        request_bytes_max=request_bytes,
        delivery_timeout_ms=delivery_timeout_ms,
        transaction_timeout_ms=transaction_timeout_ms,
        key_serializer=said.get("key.serializer", None),
        value_serializer=said.get("value.serializer", None),
        partitioner=said.get("partitioner.class", None),
        partitioner_ignores_keys=said.get("partitioner.ignore.keys", False),
        interceptors=said.get("interceptor.classes", ()),
        transactional_id=transactional_id,
        namespace=said.text("namespace"),
        serde=said.serde,
        ignored=said.ignored,
    )


def _transactional_id(said: ConfiguredKeys) -> str | None:
    if said.has("transactional.id") and not said.text("transactional.id"):
        raise SettingRefused("transactional.id", "is empty; leave it out, or give it a name")
    return said.text("transactional.id")


def _delivery_timeout_ms(
    said: ConfiguredKeys, transactional_id: str | None, transaction_timeout_ms: int
) -> int:
    """Return delivery.timeout.ms. 0 means "never" to librdkafka and "at once" to Kafka. The default
    covers linger.ms and request.timeout.ms, as in Kafka."""
    waits_ms = math.ceil(said.get("linger.ms", LINGER_MS))
    waits_ms += said.whole("request.timeout.ms")
    default_ms = min(max(DELIVERY_TIMEOUT_MS, waits_ms), INT_MAX)
    timeout_ms = max(said.whole("delivery.timeout.ms", default_ms), 1)
    if transactional_id is not None and timeout_ms > transaction_timeout_ms:
        if said.has("delivery.timeout.ms"):
            said.note(
                "delivery.timeout.ms",
                f"{timeout_ms} is taken as {transaction_timeout_ms}: a transaction is over after "
                "transaction.timeout.ms",
            )
        timeout_ms = transaction_timeout_ms
    return timeout_ms


def _check_delivery_timeout(said: ConfiguredKeys) -> None:
    """Check that a record can linger and be requested at least once, as Kafka does. A default
    request.timeout.ms gives way."""
    timeout_ms = max(said.whole("delivery.timeout.ms"), 1)
    linger_ms = said.get("linger.ms", LINGER_MS)
    request_ms = said.whole("request.timeout.ms")
    if not said.has("delivery.timeout.ms"):
        return
    if said.has("request.timeout.ms") and timeout_ms < linger_ms + request_ms:
        raise SettingRefused(
            "delivery.timeout.ms",
            f"is {timeout_ms}, less than linger.ms + request.timeout.ms ({linger_ms} + "
            f"{request_ms}); raise it, or lower these",
        )
    if said.has("linger.ms") and timeout_ms <= linger_ms:
        raise SettingRefused(
            "delivery.timeout.ms",
            f"is {timeout_ms}, and records wait for linger.ms={linger_ms}; make it longer",
        )


def _idempotence(said: ConfiguredKeys, transactional: bool) -> dict[str, RdkafkaValue]:
    """Return whether the producer is idempotent. If configured, conflicting keys are rejected; the
    default gives way to them, as in Kafka."""
    obstacle = _obstacle(said)
    asked = said.has("enable.idempotence")
    enabled: bool = said.get("enable.idempotence", True)
    if enabled and obstacle is not None:
        key, why = obstacle
        if asked:
            raise SettingRefused(key, f"{why} with enable.idempotence=true")
        enabled = False
        if not transactional:
            said.note("enable.idempotence", f"is false, because {key} {why} with it")
    if transactional and not enabled:
        key, why = obstacle or ("enable.idempotence", "has to be true")
        raise SettingRefused(key, f"{why} with transactional.id")
    told: dict[str, RdkafkaValue] = {"enable.idempotence": enabled}
    if not said.has("acks"):
        told["acks"] = "all"
    if not said.has("max.in.flight.requests.per.connection"):
        told["max.in.flight.requests.per.connection"] = IN_FLIGHT_MAX
    return told


def _obstacle(said: ConfiguredKeys) -> tuple[str, str] | None:
    if said.get("acks", "all") not in ("all", "-1"):
        return "acks", "has to be all"
    if said.get("retries", 1) == 0:
        return "retries", "has to be above 0"
    if said.get("max.in.flight.requests.per.connection", 1) > IN_FLIGHT_MAX:
        return "max.in.flight.requests.per.connection", f"has to be at most {IN_FLIGHT_MAX}"
    return None


def _compression(said: ConfiguredKeys) -> dict[str, RdkafkaValue]:
    codec = said.get("compression.type", "none")
    for each in ("gzip", "lz4", "zstd"):
        key = f"compression.{each}.level"
        if said.has(key) and each != codec:
            said.note(key, f"compression.type is {codec}")
    key = f"compression.{codec}.level"
    if not said.has(key):
        return {}
    asked = said.whole(key, -1)
    if codec == "gzip" and asked == 0:
        raise SettingRefused(key, "is 0; it takes -1 (the default), or 1 to 9")
    least = -1 if codec == "gzip" else 1
    level = min(max(asked, least), LEVEL_MOST)
    if level != asked:
        said.note(key, f"{asked} is taken as {level}, librdkafka's limit")
    return {"compression.level": level}


def _request_timeout(
    said: ConfiguredKeys, transactional: bool, transaction_timeout_ms: int
) -> dict[str, RdkafkaValue]:
    timeout_ms = said.whole("request.timeout.ms")
    told: dict[str, RdkafkaValue] = {
        "request.timeout.ms": min(max(timeout_ms, 1), ACK_TIMEOUT_MS_MOST)
    }
    # A response may not take as long as the transaction; librdkafka rejects such settings.
    if transactional and "socket.timeout.ms" not in said.own:
        told["socket.timeout.ms"] = max(min(timeout_ms, transaction_timeout_ms), 10)
    return told
