"""Settings for the three clients of a retry session, and the ones that it requires.

A key goes to every client that knows it; the prefix `consumer.`, `producer.` or `admin.` chooses
one client. Keys that would break exactly-once (another isolation level, another assignor, auto
commits) are rejected with the way out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from penstock.client.settings import OffsetReset, SettingRefused, SettingValue, consumer_settings
from penstock.client.settings.table import PASSING, ROWS, Client

# An open transaction of a dead process blocks the next owner for so long.
TRANSACTION_TIMEOUT_MS = 10_000
# Retry headers make a record longer than the source allows.
TRAIL_BYTES_MAX = 8 * 1024
REQUEST_BYTES_DEFAULT = 1_048_576
# Compressed records of the source are written uncompressed, and their size is not known before.
RETRY_RECORD_BYTES_MIN = 64 * 1024 * 1024
REQUEST_BYTES_MAX = 1_000_000_000  # librdkafka's
BUFFER_BYTES_DEFAULT = 33_554_432
_OURS = {
    "isolation.level": (
        "read_committed",
        "records of aborted transactions would be handled; remove the key",
    ),
    "enable.auto.commit": ("false", "offsets are committed with what was made of the records"),
    "partition.assignment.strategy": (
        "range",
        "only the range assignor gives a partition and those of its retry topics to one member",
    ),
    "group.remote.assignor": (
        "range",
        "only the range assignor gives a partition and those of its retry topics to one member",
    ),
}
_JAVA_RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of each client; `offset_reset` is for source partitions without an offset."""

    consumer: dict[str, SettingValue] = field(repr=False)
    producer: dict[str, SettingValue] = field(repr=False)
    admin: dict[str, SettingValue] = field(repr=False)
    offset_reset: OffsetReset
    handler_timeout_s: float
    revoke_timeout_s: float

    def transactional(self, group: str, source_bytes_max: int) -> dict[str, SettingValue]:
        """Return settings for the producer of one session, with a unique transactional id."""
        request_bytes = max(
            self._number("max.request.size", REQUEST_BYTES_DEFAULT),
            retry_record_bytes_max(source_bytes_max),
        )
        request_bytes = min(request_bytes, REQUEST_BYTES_MAX)
        # The largest record has to fit beside others.
        buffer_bytes = max(self._number("buffer.memory", BUFFER_BYTES_DEFAULT), 2 * request_bytes)
        return {
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "linger.ms": 1,
            **self.producer,
            "max.request.size": request_bytes,
            "buffer.memory": buffer_bytes,
            "transactional.id": f"{group}-{uuid4().hex}",
        }

    @property
    def result_bytes_max(self) -> int:
        """Return the limit of a result; only retry records may exceed max.request.size."""
        return self._number("max.request.size", REQUEST_BYTES_MAX)

    def _number(self, name: str, default: int) -> int:
        return int(str(self.producer.get(name, default)))


def retry_record_bytes_max(source_bytes_max: int) -> int:
    """Return the limit of records in the topics beside a source with this limit."""
    return max(source_bytes_max + TRAIL_BYTES_MAX, RETRY_RECORD_BYTES_MIN)


def client_settings(
    given: Mapping[str, SettingValue], *, bootstrap: str | None, group: str
) -> ClientSettings:
    """Return settings for each client; raise SettingRefused with the key and the way out."""
    parts = split(given, bootstrap)
    consumer = parts[Client.CONSUMER]
    consumer["group.id"] = group
    _require_settings(consumer)
    if "transactional.id" in parts[Client.PRODUCER]:
        raise SettingRefused(
            "transactional.id", "each process gets one of its own, beginning with the group's name"
        )
    # Kafka's own default would pass over what was sent before a group first ran.
    consumer.setdefault("auto.offset.reset", "earliest")
    # A deleted source must not be created again by a read.
    consumer.setdefault("allow.auto.create.topics", False)
    read = consumer_settings(consumer)
    # Retry topics are read from their beginning; the source's own reset is done by a seek.
    consumer["auto.offset.reset"] = "earliest"
    return ClientSettings(
        consumer,
        parts[Client.PRODUCER],
        parts[Client.ADMIN],
        read.offset_reset,
        read.handler_timeout_ms / 1000,
        read.revoke_timeout_ms / 1000,
    )


def split(
    given: Mapping[str, SettingValue], bootstrap: str | None
) -> dict[Client, dict[str, SettingValue]]:
    """Return the settings of each client."""
    parts: dict[Client, dict[str, SettingValue]] = {each: {} for each in Client}
    for name, value in given.items():
        _assign_setting(parts, name, value)
    if bootstrap is not None:
        for part in parts.values():
            part["bootstrap.servers"] = bootstrap
    return parts


def _assign_setting(
    parts: dict[Client, dict[str, SettingValue]], name: str, value: SettingValue
) -> None:
    prefix, _, rest = name.partition(".")
    if rest and prefix in set(Client):
        parts[Client(prefix)][rest] = value
        return
    known = [each for each in Client if name in ROWS[each] or name in PASSING[each]]
    # An unknown key goes to the consumer, whose error names similar keys.
    for each in known or [Client.CONSUMER]:
        parts[each].setdefault(name, value)


def _require_settings(consumer: dict[str, SettingValue]) -> None:
    for name, (needed, why) in _OURS.items():
        said = consumer.pop(name, None)
        if said is None:
            continue
        words = str(said).lower() if name != "partition.assignment.strategy" else str(said)
        if words not in (needed, _JAVA_RANGE):
            raise SettingRefused(name, f"{why} (it has to be {needed})")
    consumer["isolation.level"] = "read_committed"
    consumer["enable.auto.commit"] = False
    protocol = str(consumer.get("group.protocol", "classic")).lower()
    if protocol == "consumer":
        consumer["group.remote.assignor"] = "range"
    else:
        consumer["partition.assignment.strategy"] = "range"
