"""One set of settings for the three clients that retrying needs, and what it has to insist on.

A key goes to every client that knows it; `consumer.`, `producer.` or `admin.` before it sends it to
that one only. What would break the promise (other isolation, other assignors, commits by the
consumer itself) is refused with the way out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from penstock.client.settings import OffsetReset, SettingRefused, SettingValue, consumer_settings
from penstock.client.settings.table import PASSING, ROWS, Client

# A transaction of a process that died holds up its successor for so long.
TRANSACTION_TIMEOUT_MS = 10_000
# The trail in the headers makes a record longer than the source allowed it to be.
TRAIL_BYTES_MAX = 8 * 1024
REQUEST_BYTES_DEFAULT = 1_048_576
# What a source took compressed is written plain, and nobody knows how large that is.
LETTER_BYTES_MIN = 64 * 1024 * 1024
REQUEST_BYTES_MAX = 1_000_000_000  # librdkafka's
BUFFER_BYTES_DEFAULT = 33_554_432
_OURS = {
    "isolation.level": (
        "read_committed",
        "records of broken-off transactions would be tried again; leave it out",
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
    """For each client its own; `offset_reset` is for source partitions without an offset."""

    consumer: dict[str, SettingValue] = field(repr=False)
    producer: dict[str, SettingValue] = field(repr=False)
    admin: dict[str, SettingValue] = field(repr=False)
    offset_reset: OffsetReset
    handler_timeout_s: float
    revoke_timeout_s: float

    def transactional(self, group: str, source_bytes_max: int) -> dict[str, SettingValue]:
        """For a producer of one life: another process never has its transactional id."""
        request_bytes = max(
            self._number("max.request.size", REQUEST_BYTES_DEFAULT), letter_bytes(source_bytes_max)
        )
        request_bytes = min(request_bytes, REQUEST_BYTES_MAX)
        # The largest has to find room beside others.
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
        """Of a result: letters may be larger than the producer was told, others may not."""
        return self._number("max.request.size", REQUEST_BYTES_MAX)

    def _number(self, name: str, default: int) -> int:
        return int(str(self.producer.get(name, default)))


def letter_bytes(source_bytes_max: int) -> int:
    """How large a record beside a source may be whose own have this limit."""
    return max(source_bytes_max + TRAIL_BYTES_MAX, LETTER_BYTES_MIN)


def client_settings(
    given: Mapping[str, SettingValue], *, bootstrap: str | None, group: str
) -> ClientSettings:
    """SettingRefused names the key and the way out."""
    parts = split(given, bootstrap)
    consumer = parts[Client.CONSUMER]
    consumer["group.id"] = group
    _insist(consumer)
    if "transactional.id" in parts[Client.PRODUCER]:
        raise SettingRefused(
            "transactional.id", "each process gets one of its own, beginning with the group's name"
        )
    # Kafka's own default would pass over what was sent before a group first ran.
    consumer.setdefault("auto.offset.reset", "earliest")
    # A source has to be there; one that is deleted stays deleted.
    consumer.setdefault("allow.auto.create.topics", False)
    read = consumer_settings(consumer)
    # Beside topics have to be read from their beginning; the source's wish is served by a seek.
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
    """For each client what it knows."""
    parts: dict[Client, dict[str, SettingValue]] = {each: {} for each in Client}
    for name, value in given.items():
        _place(parts, name, value)
    if bootstrap is not None:
        for part in parts.values():
            part["bootstrap.servers"] = bootstrap
    return parts


def _place(parts: dict[Client, dict[str, SettingValue]], name: str, value: SettingValue) -> None:
    prefix, _, rest = name.partition(".")
    if rest and prefix in set(Client):
        parts[Client(prefix)][rest] = value
        return
    known = [each for each in Client if name in ROWS[each] or name in PASSING[each]]
    # A name that nobody knows goes to the consumer, which says what it may have meant.
    for each in known or [Client.CONSUMER]:
        parts[each].setdefault(name, value)


def _insist(consumer: dict[str, SettingValue]) -> None:
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
