"""The configuration of one consumer, resolved before opening: settings, names, callbacks.

Topics and groups carry the namespace's prefix here; the application sees them without it.
"""

import re
import uuid
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from penstock.client.addresses import BootstrapLike
from penstock.client.consumer.offsets.offset_tracker import PartitionKey
from penstock.client.namespace import CLUSTER_TOPICS, Namespace, namespace_of
from penstock.client.records import Record
from penstock.client.settings import (
    ConsumerSettings,
    OffsetReset,
    SettingRefused,
    SettingValue,
    consumer_settings,
)
from penstock.client.settings.key_reader import check_mapping
from penstock.model import TopicPartition

# An offset, a moment, or an end of the partition.
Position: TypeAlias = int | datetime | Literal["start", "end"]
# A partition as applications may name it.
PlaceLike: TypeAlias = TopicPartition | tuple[str, int] | Record[Any, Any]
PartitionsCallback: TypeAlias = Callable[[Collection[TopicPartition]], Awaitable[None] | None]

# librdkafka's default, and the share of it that a revocation may take. After the whole interval
# the group removes the member.
POLL_INTERVAL_MS = 300_000
POLL_INTERVAL_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics or a pattern, shared with the group, or named partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    places: Mapping[PartitionKey, Position | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.topics or self.pattern or self.places)


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The application's rebalance callbacks."""

    assigned: PartitionsCallback | None = None
    revoked: PartitionsCallback | None = None
    lost: PartitionsCallback | None = None


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The configuration of one consumer."""

    rdkafka: dict[str, Any] = field(repr=False)
    namespace: Namespace
    group: str | None
    cooperative: bool
    auto_commit: bool
    commit_interval_s: float
    offset_reset: OffsetReset
    poll_records_max: int
    api_timeout_s: float
    handler_timeout_s: float
    revoke_timeout_s: float
    manual_finish: bool
    callbacks: Callbacks
    # Whether readers may poll (poll_ownership.py).
    readers_poll: bool

    def place(self, said: PlaceLike) -> PartitionKey:
        """Return a partition with the namespace's prefix."""
        if isinstance(said, Record):
            return (self.namespace.add_topic(said.topic), said.partition)
        if not isinstance(said, tuple) or len(said) != 2:
            raise TypeError(f"{said!r} is no partition; say (topic, number) or TopicPartition(...)")
        topic, partition = said
        return (self.namespace.add_topic(topic), partition)

    def without_namespace(self, place: PartitionKey) -> TopicPartition:
        """Return a partition as the application names it."""
        topic, partition = place
        return TopicPartition(self.topic_without_namespace(topic), partition)

    def topic_without_namespace(self, topic: str) -> str:
        # A topic of another namespace is never subscribed; its full name would show the fault.
        return self.namespace.strip(topic) or topic

    def subscription(
        self,
        topics: Collection[str] | None,
        pattern: str | None,
        places: Mapping[TopicPartition, Position | None] | None,
    ) -> Subscription:
        """Return a checked subscription: at most one of the three arguments, and a group for the
        first two."""
        if sum(each is not None for each in (topics, pattern, places)) > 1:
            raise ValueError("say one of topics, pattern and assign, not several")
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of names, not one: topics=[{topics!r}]")
        if (topics is not None or pattern is not None) and self.group is None:
            raise SettingRefused(
                "group.id", "to subscribe takes a group: say group=..., or name partitions: assign="
            )
        subscription = Subscription(
            tuple(self.namespace.add_topic(topic) for topic in topics or ()),
            None if pattern is None else self._whole_name_pattern(pattern),
            {self.place(place): start for place, start in (places or {}).items()},
        )
        self._check_internal(subscription)
        return subscription

    def _whole_name_pattern(self, pattern: str) -> str:
        """Return a pattern over whole names, as in Kafka; librdkafka matches prefixes."""
        _check_pattern(pattern)
        full = self.namespace.add_pattern(pattern)
        return f"{full}$" if self.namespace else f"^({full})$"

    def _check_internal(self, subscription: Subscription) -> None:
        hidden = "topic.blacklist" in self.rdkafka
        named = (*subscription.topics, *(topic for topic, _ in subscription.places))
        if hidden and not CLUSTER_TOPICS.isdisjoint(named):
            raise SettingRefused(
                "exclude.internal.topics",
                "it hides the cluster's own topics; set it to false to read them by name later, or "
                "name them when the consumer is made",
            )


def _check_pattern(pattern: object) -> None:
    """Raise for an invalid pattern: librdkafka would not say where the fault is. POSIX limits that
    Python does not know stay with librdkafka."""
    if not isinstance(pattern, str):
        raise TypeError(f"pattern is a regular expression as text, and {pattern!r} is none")
    if not pattern:
        raise ValueError("pattern '' matches no topic: say a regular expression over whole names")
    try:
        with warnings.catch_warnings():  # for POSIX classes such as [[:alpha:]]
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern {pattern!r} is no regular expression: {error}") from error


def resolve_config(
    settings: Mapping[str, SettingValue] | None,
    *,
    bootstrap: BootstrapLike | None,
    group: str | None,
    namespace: str | None,
    manual_finish: bool,
    callbacks: Callbacks,
    hides_internal: bool,
) -> tuple[ResolvedConfig, ConsumerSettings]:
    """Return the configuration; raise SettingRefused for invalid settings."""
    check_mapping(settings)
    given = dict(settings or {})
    if group is not None:
        given["group.id"] = group
    read = consumer_settings(given, bootstrap=bootstrap)
    space = namespace_of(namespace if namespace is not None else read.namespace)
    named = None if not read.group_id else space.add(read.group_id)
    rdkafka: dict[str, Any] = dict(read.rdkafka)
    # librdkafka requires a group; no offset is committed to this one.
    rdkafka["group.id"] = named or f"penstock-without-group-{uuid.uuid4()}"
    # librdkafka counts messages as read when the polling thread has them; offset_tracker.py
    # decides instead.
    rdkafka["enable.auto.commit"] = False
    rdkafka["enable.auto.offset.store"] = False
    # The end may be behind the last record: transaction markers, compacted offsets.
    rdkafka["enable.partition.eof"] = True
    reset = read.offset_reset
    rdkafka["auto.offset.reset"] = reset if reset in ("earliest", "latest") else "error"
    if hides_internal and read.excludes_internal_topics:
        rdkafka.setdefault("topic.blacklist", ",".join(f"^{t}$" for t in sorted(CLUSTER_TOPICS)))
    poll_interval_ms = int(rdkafka.get("max.poll.interval.ms", POLL_INTERVAL_MS))
    config = ResolvedConfig(
        rdkafka=rdkafka,
        namespace=space,
        group=named,
        cooperative=_is_cooperative(rdkafka),
        auto_commit=read.auto_commit and named is not None,
        commit_interval_s=read.auto_commit_interval_ms / 1000,
        offset_reset=reset,
        poll_records_max=read.poll_records_max,
        api_timeout_s=read.api_timeout_ms / 1000,
        handler_timeout_s=read.handler_timeout_ms / 1000,
        revoke_timeout_s=min(read.revoke_timeout_ms, poll_interval_ms * POLL_INTERVAL_SHARE) / 1000,
        manual_finish=manual_finish,
        callbacks=callbacks,
        readers_poll=_readers_poll(read.rdkafka, callbacks, manual_finish=manual_finish),
    )
    return config, read


def _readers_poll(rdkafka: Mapping[str, Any], callbacks: Callbacks, *, manual_finish: bool) -> bool:
    """Return whether a poll on a reader's thread cannot block.

    Callbacks, manual finish and the consumer protocol rule that out. Only the classic protocol may
    assign partitions after its callback.
    """
    told = callbacks != Callbacks() or any(map(callable, rdkafka.values()))
    return not (told or manual_finish or _is_newer_protocol(rdkafka))


def _is_newer_protocol(rdkafka: Mapping[str, Any]) -> bool:
    return str(rdkafka.get("group.protocol", "classic")).lower() == "consumer"


def _is_cooperative(rdkafka: Mapping[str, Any]) -> bool:
    """Return whether partitions are assigned incrementally; librdkafka rejects assignors of both
    kinds."""
    if _is_newer_protocol(rdkafka):
        return True
    return "cooperative" in str(rdkafka.get("partition.assignment.strategy", ""))
