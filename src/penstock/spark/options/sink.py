"""The options of a write: topic and `kafka.*` as Spark's Kafka sink has them, and our own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from penstock.bulk.encode import BATCH_BYTES_MAX
from penstock.client.admin.blocking import Admin
from penstock.client.transport.security import Security
from penstock.spark.options.client_keys import (
    WRITER,
    client_properties,
    whole_property,
    word_property,
)
from penstock.spark.options.option_bag import BadOption, OptionBag, pass_over_unknown
from penstock.spark.sink.decision_end import OnLost
from penstock.spark.sink.decisions import BatchName

# The options that Spark's Kafka sink lacks.
OURS = ("delivery.guarantee", "sink.id", "sink.tasks", "new.checkpoint", "on.lost")
NAMES = ("topic", "checkpointLocation", "includeHeaders", *OURS)
# The batch of `write_batch`, which no other option can carry.
BATCH_QUERY, BATCH_NUMBER = "penstock.batch.query", "penstock.batch.id"
SPARKS_OWN = ("path", "__table", "queryname", "outputmode")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
BATCH_BYTES = 1_000_000  # the limit of a default broker; Kafka's client has 16 KB
# Below 15 minutes, the default maximum of a cluster (transaction.max.timeout.ms).
TRANSACTION_TIMEOUT_MS = 10 * 60_000
DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000


class DeliveryGuarantee(StrEnum):
    """The option `delivery.guarantee`."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write. `topic` None: each row has one. `batch` is the batch of
    `write_batch`."""

    properties: Mapping[str, str]
    topic: str | None = None
    sink_id: str | None = None
    checkpoint_location: str | None = None
    delivery: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    tasks_max: int | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    new_checkpoint_allowed: bool = False
    on_lost: OnLost = OnLost.STOP
    batch: BatchName | None = None
    acks: int = -1
    compression: str = "none"
    compression_level: int | None = None
    batch_bytes: int = BATCH_BYTES_MAX
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    client_id: str = "penstock-spark-sink"

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    @property
    def transactional(self) -> bool:
        return self.delivery is DeliveryGuarantee.EXACTLY_ONCE

    def connect(self) -> Admin:
        """Connect to the cluster; the caller closes the client."""
        return Admin(
            bootstrap=self.bootstrap,
            client_id=self.client_id,
            timeout_s=self.request_timeout_ms / 1000,
            security=Security.from_properties(self.properties),
        )


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options. Raise BadOption with the wrong one and its values."""
    bag = OptionBag(options)
    # First: an address without its prefix is an error, and no option without effect.
    properties = client_properties(bag, WRITER)
    pass_over_unknown(bag, NAMES, OURS, (BATCH_QUERY, BATCH_NUMBER, *SPARKS_OWN), "sink")
    delivery = DeliveryGuarantee(
        bag.choice("delivery.guarantee", tuple(DeliveryGuarantee), DeliveryGuarantee.EXACTLY_ONCE)
    )
    compression = word_property(properties, "compression.type", CODECS, "none")
    return SinkOptions(
        properties=properties,
        topic=bag.text("topic"),
        sink_id=bag.text("sink.id"),
        checkpoint_location=_whole_path(bag.text("checkpointLocation")),
        delivery=delivery,
        tasks_max=bag.whole("sink.tasks", at_least=1),
        transaction_timeout_ms=whole_property(
            properties, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS
        ),
        new_checkpoint_allowed=bag.choice("new.checkpoint", ("allow", "stop"), "stop") == "allow",
        on_lost=OnLost(bag.choice("on.lost", tuple(OnLost), OnLost.STOP)),
        batch=_batch(bag),
        acks=_acks(properties, delivery),
        compression=compression,
        compression_level=_level(properties, compression),
        batch_bytes=whole_property(properties, "batch.size", BATCH_BYTES),
        delivery_timeout_ms=whole_property(properties, "delivery.timeout.ms", DELIVERY_TIMEOUT_MS),
        request_timeout_ms=whole_property(properties, "request.timeout.ms", REQUEST_TIMEOUT_MS),
        client_id=properties.get("client.id", "penstock-spark-sink"),
    )


def _whole_path(location: str | None) -> str | None:
    """Return an absolute path: the sink's id is made of it, and `out` depends on the directory."""
    if not location or "://" in location or location.startswith("file:"):
        return location
    return os.path.abspath(location)


def _batch(bag: OptionBag) -> BatchName | None:
    query, number = bag.text(BATCH_QUERY), bag.whole(BATCH_NUMBER)
    return None if query is None or number is None else BatchName(query, number)


def _acks(properties: Mapping[str, str], delivery: DeliveryGuarantee) -> int:
    acks = ACKS[word_property(properties, "acks", tuple(ACKS), "all")]
    if acks != -1 and delivery is DeliveryGuarantee.EXACTLY_ONCE:
        raise BadOption(
            "kafka.acks must be all where rows are written exactly once; "
            "delivery.guarantee=at-least-once takes others"
        )
    return acks


def _level(properties: Mapping[str, str], compression: str) -> int | None:
    name = f"compression.{compression}.level"
    if name not in properties or compression not in LEVELS:
        return None
    level = whole_property(properties, name, 0)
    low, high = LEVELS[compression]
    if not low <= level <= high:
        raise BadOption(f"kafka.{name} is {level}; it takes {low} to {high}")
    return level
