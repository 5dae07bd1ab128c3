"""The options of a read: those of Spark's Kafka source, and isolation.level, columns, group.id."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.admin.blocking import Admin
from penstock.client.transport.security import Security
from penstock.spark.options.bounds import (
    Bound,
    Subscription,
    read_end,
    read_start,
    read_subscription,
)
from penstock.spark.options.client_keys import (
    READER,
    client_properties,
    whole_property,
    word_property,
)
from penstock.spark.options.option_bag import BadOption, OptionBag, pass_over_unknown, warn_once

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
ISOLATION = ("read_uncommitted", "read_committed")
CHUNK_BYTES = 4 * 1024 * 1024
CHUNK_BYTES_MAX = 256 * 1024 * 1024
TIMEOUT_MS = 120_000
TRIGGER_DELAY_MS = 15 * 60_000

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "lowLatency")
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
NAMES = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "includeHeaders",
    "isolation.level",
    "columns",
    "group.id",
    *STREAM_ONLY,
    *BATCH_ONLY,
)
# The options that Spark's Kafka source lacks.
OURS = ("isolation.level", "columns", "group.id", "lowLatency")
# Options of Spark itself, which every source receives.
SPARKS_OWN = ("path", "__table", "streamingschema", "recursivefilelookup")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one micro-batch."""

    offsets_max: int | None
    offsets_min: int | None
    delay_ms_max: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options of a read."""

    properties: Mapping[str, str]
    subscription: Subscription
    start: Bound
    end: Bound
    late_start_is_latest: bool
    fail_on_data_loss: bool
    limits: BatchLimits
    tasks_min: int | None
    task_records_max: int | None
    columns: tuple[str, ...]
    committed_only: bool
    check_crc: bool
    group_id: str | None
    low_latency: bool
    chunk_bytes: int
    timeout_ms: int
    lookup_retries: int
    lookup_pause_ms: int
    client_id: str

    @property
    def bootstrap(self) -> str:
        return self.properties["bootstrap.servers"]

    def connect(self, timeout_ms: int | None = None) -> Admin:
        """Connect to the cluster; the caller closes the client."""
        return Admin(
            bootstrap=self.bootstrap,
            client_id=self.client_id,
            timeout_s=(timeout_ms or self.timeout_ms) / 1000,
            security=Security.from_properties(self.properties),
        )


def read_source_options(options: Mapping[str, str], streaming: bool) -> SourceOptions:
    """Return the options. Raise BadOption with the wrong one and its values."""
    bag = OptionBag(options)
    # First: an address without its prefix is an error, and no option without effect.
    properties = client_properties(bag, READER)
    pass_over_unknown(bag, NAMES, OURS, SPARKS_OWN, "source")
    _look_for_other_kind(bag, streaming)
    strategy = bag.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    prefix = bag.text("groupIdPrefix") or "penstock-spark-source"
    limits = BatchLimits(
        bag.whole("maxOffsetsPerTrigger", at_least=1),
        bag.whole("minOffsetsPerTrigger", at_least=1),
        bag.duration_ms("maxTriggerDelay", TRIGGER_DELAY_MS),
    )
    if limits.offsets_max and limits.offsets_min and limits.offsets_min > limits.offsets_max:
        raise BadOption(
            f"minOffsetsPerTrigger ({limits.offsets_min}) is above "
            f"maxOffsetsPerTrigger ({limits.offsets_max})"
        )
    return SourceOptions(
        properties=properties,
        subscription=read_subscription(bag),
        start=read_start(bag, streaming),
        end=read_end(bag),
        late_start_is_latest=strategy == "latest",
        fail_on_data_loss=bag.flag("failOnDataLoss", True),
        limits=limits,
        tasks_min=bag.whole("minPartitions", at_least=1),
        task_records_max=bag.whole("maxRecordsPerPartition", at_least=1),
        columns=read_columns(bag),
        committed_only=_isolation(bag, properties) == "read_committed",
        check_crc=word_property(properties, "check.crcs", ("true", "false"), "true") == "true",
        group_id=bag.text("group.id"),
        low_latency=streaming and bag.flag("lowLatency", False),
        chunk_bytes=_chunk_bytes(properties),
        timeout_ms=bag.number("kafkaConsumer.pollTimeoutMs", TIMEOUT_MS, 1),
        lookup_retries=bag.number("fetchOffset.numRetries", 3),
        lookup_pause_ms=bag.number("fetchOffset.retryIntervalMs", 1_000),
        client_id=properties.get("client.id") or properties.get("group.id") or prefix,
    )


def _look_for_other_kind(bag: OptionBag, streaming: bool) -> None:
    """Reject an end of a stream and ignore the pace of a batch read, as Spark's source does."""
    for name in BATCH_ONLY if streaming else ():
        if name in bag:
            raise BadOption(f"{name} is an option of batch reads")
    for name in () if streaming else STREAM_ONLY:
        if name in bag:
            warn_once(f"the option {name} has no effect in a batch read")


def _isolation(bag: OptionBag, properties: Mapping[str, str]) -> str:
    """Return isolation.level, with or without the prefix `kafka.`: both are natural to write."""
    if "isolation.level" in bag:
        return bag.choice("isolation.level", ISOLATION, ISOLATION[0])
    return word_property(properties, "isolation.level", ISOLATION, ISOLATION[0])


def _chunk_bytes(properties: Mapping[str, str]) -> int:
    chosen = whole_property(properties, "max.partition.fetch.bytes", CHUNK_BYTES)
    if not 1 <= chosen <= CHUNK_BYTES_MAX:
        raise BadOption(
            f"kafka.max.partition.fetch.bytes is {chosen}; it takes 1 to {CHUNK_BYTES_MAX}"
        )
    return chosen


def read_columns(bag: OptionBag) -> tuple[str, ...]:
    """Return Spark's columns in Spark's order, with headers on request; `columns` selects fewer."""
    everything = (*COLUMNS, HEADERS)
    with_headers = bag.flag("includeHeaders", False)
    text = bag.text("columns")
    if text is None:
        return everything if with_headers else COLUMNS
    by_lower = {name.lower(): name for name in everything}
    asked = [part.strip().lower() for part in text.split(",") if part.strip()]
    unknown = [name for name in asked if name not in by_lower]
    if unknown or not asked:
        raise BadOption(f"columns is {text!r}; it takes some of {', '.join(everything)}")
    asked += [HEADERS] if with_headers else []
    return tuple(dict.fromkeys(by_lower[name] for name in asked))
