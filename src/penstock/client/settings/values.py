"""The settings of a client after translation.

`rdkafka` is the dictionary for confluent_kafka: librdkafka's names, and callables where it takes
them. The other fields are done by the clients of this package. Secrets are not printed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from penstock.client.transport.security import Security

# Values are text, numbers and booleans; keys for classes take the object too.
SettingValue: TypeAlias = str | int | float | bool | Callable[..., Any] | object | None
RdkafkaValue: TypeAlias = str | int | float | bool | Callable[..., Any] | object

OffsetReset: TypeAlias = (
    Literal["earliest"] | Literal["latest"] | Literal["none"] | tuple[Literal["by_duration"], int]
)
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
# A key without an effect, and the reason.
Ignored: TypeAlias = tuple[tuple[str, str], ...]


class SettingRefused(ValueError):
    """A setting cannot be used; the text names the key, the cause and the next step."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key = key
        self.why = why

    def __reduce__(self) -> tuple[type["SettingRefused"], tuple[str, str]]:
        return type(self), (self.key, self.why)


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of one producer. The transactional id is as configured, without the
    namespace."""

    rdkafka: dict[str, RdkafkaValue] = field(repr=False)
    buffer_memory_bytes: int
    max_block_ms: int
    request_bytes_max: int
    delivery_timeout_ms: int
    transaction_timeout_ms: int
    key_serializer: object | None
    value_serializer: object | None
    # A function or object as given, or a name of client/partitioners.py; None is Kafka's default:
    # murmur2 of the key, and sticky without one.
    partitioner: object | None
    partitioner_ignores_keys: bool
    interceptors: tuple[object, ...]
    transactional_id: str | None
    namespace: str | None
    # schema.registry.* and other keys of serializers.
    serde: Mapping[str, object] = field(repr=False)
    ignored: Ignored


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of one consumer. The group is as configured, without the namespace."""

    rdkafka: dict[str, RdkafkaValue] = field(repr=False)
    group_id: str | None
    auto_commit: bool
    auto_commit_interval_ms: int
    offset_reset: OffsetReset
    poll_records_max: int
    api_timeout_ms: int
    handler_timeout_ms: int
    revoke_timeout_ms: int
    key_deserializer: object | None
    value_deserializer: object | None
    interceptors: tuple[object, ...]
    namespace: str | None
    isolation: Isolation
    # Whether a pattern skips internal topics.
    excludes_internal_topics: bool
    serde: Mapping[str, object] = field(repr=False)
    ignored: Ignored


@dataclass(frozen=True, slots=True)
class AdminSettings:
    """The settings of one admin client, which speaks the protocol itself."""

    bootstrap: str
    client_id: str
    request_timeout_ms: int
    api_timeout_ms: int
    security: Security | None
    namespace: str | None
    ignored: Ignored
