"""From one image to the next: applies records to copies of the changed tables, and notes changes.

Replay accepts every record that Kafka wrote. An impossible record, such as a change of an unknown
partition, stops the start: the log is corrupt.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.controller.image import (
    NO_LEADER,
    TOPIC,
    BrokerImage,
    ConfigResourceId,
    ControllerNode,
    Image,
    ListenerEndpoint,
    PartitionImage,
    ProducerIds,
    Topic,
    VersionRange,
)
from penstock.controller.records import UnreadRecord
from penstock.wire.records import metadata as m

NO_LEADER_CHANGE = -2


class MetadataCorrupt(Exception):
    """The metadata log contradicts itself."""


@dataclass(frozen=True, slots=True)
class Delta:
    """The changes between two images: names and ids, in a stable order."""

    created_topics: tuple[str, ...] = ()
    deleted_topics: tuple[tuple[str, bytes], ...] = ()
    changed_partitions: tuple[tuple[str, tuple[int, ...]], ...] = ()  # of created topics too
    configs: tuple[ConfigResourceId, ...] = ()
    brokers: tuple[int, ...] = ()
    scram: tuple[tuple[str, int], ...] = ()  # credentials: name and mechanism
    acls: tuple[bytes, ...] = ()  # ids of those that were added or removed

    @property
    def topics(self) -> tuple[str, ...]:
        """Return the names of all topics that were created, deleted or changed."""
        names = dict.fromkeys(self.created_topics)
        names.update(dict.fromkeys(name for name, _ in self.deleted_topics))
        names.update(dict.fromkeys(name for name, _ in self.changed_partitions))
        return tuple(names)


class ImageBuilder:
    """Collects the records of a batch or of a metadata transaction on top of an image."""

    def __init__(self, base: Image) -> None:
        self._base = base
        self._tables: dict[str, Any] = {}  # only those that were written to
        self._partitions: dict[
            str, dict[int, PartitionImage]
        ] = {}  # of topics that were written to
        self._created: dict[str, None] = {}
        self._deleted: dict[str, bytes] = {}
        self._changed: dict[str, dict[int, None]] = {}
        self._configs: dict[ConfigResourceId, None] = {}
        self._brokers: dict[int, None] = {}
        self._scram: dict[tuple[str, int], None] = {}
        self._acls: dict[bytes, None] = {}

    # Tables are copied when they are first written to

    def _table(self, name: str) -> Any:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = dict(getattr(self._base, name))
        return table

    def _look(self, name: str) -> Any:
        found = self._tables.get(name)
        return getattr(self._base, name) if found is None else found

    def apply(self, record: Any) -> None:
        """Apply one record; metadata transactions are up to the caller."""
        if isinstance(record, UnreadRecord):
            unread = self._tables.get("unread", self._base.unread)
            self._tables["unread"] = (*unread, record.raw)
            return
        handler = _APPLY.get(type(record))
        if handler is not None:
            handler(self, record)

    def build(self, offset: int, epoch: int, timestamp_ms: int) -> tuple[Image, Delta]:
        """Return the image with all applied records, and its delta; `offset` is that of the last
        record."""
        if self._partitions:
            topics = self._table("topics")
            for name, partitions in self._partitions.items():
                ordered = dict(sorted(partitions.items()))
                topics[name] = replace(topics[name], partitions=ordered)
        image = replace(
            self._base, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms, **self._tables
        )
        delta = Delta(
            created_topics=tuple(self._created),
            deleted_topics=tuple(self._deleted.items()),
            changed_partitions=tuple((name, tuple(ids)) for name, ids in self._changed.items()),
            configs=tuple(self._configs),
            brokers=tuple(self._brokers),
            scram=tuple(self._scram),
            acls=tuple(self._acls),
        )
        return image, delta

    # Topics

    def _topic_name(self, topic_id: bytes) -> str:
        name: str | None = self._look("topic_names").get(topic_id)
        if name is None:
            raise MetadataCorrupt(f"a record names topic id {topic_id.hex()}, which does not exist")
        return name

    def _writable_partitions(self, name: str) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(name)
        if partitions is None:
            partitions = self._partitions[name] = dict(self._look("topics")[name].partitions)
        return partitions

    def topic(self, record: m.TopicRecord) -> None:
        if record.name in self._look("topics"):
            raise MetadataCorrupt(f"topic {record.name!r} is created twice")
        self._table("topics")[record.name] = Topic(record.name, record.topic_id, {})
        self._table("topic_names")[record.topic_id] = record.name
        self._created[record.name] = None

    def remove_topic(self, record: m.RemoveTopicRecord) -> None:
        name = self._topic_name(record.topic_id)
        del self._table("topics")[name]
        del self._table("topic_names")[record.topic_id]
        self._partitions.pop(name, None)
        self._changed.pop(name, None)
        if name in self._created:
            del self._created[name]
        else:
            self._deleted[name] = record.topic_id
        resource = ConfigResourceId(TOPIC, name)
        if resource in self._look("configs"):
            del self._table("configs")[resource]
            self._configs[resource] = None

    def partition(self, record: m.PartitionRecord) -> None:
        name = self._topic_name(record.topic_id)
        self._writable_partitions(name)[record.partition_id] = PartitionImage(
            partition_id=record.partition_id,
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories),
            adding=tuple(record.adding_replicas),
            removing=tuple(record.removing_replicas),
            eligible_leaders=tuple(record.eligible_leader_replicas or ()),
            last_known_leaders=tuple(record.last_known_elr or ()),
            recovery_state=record.leader_recovery_state,
        )
        self._changed.setdefault(name, {})[record.partition_id] = None

    def partition_change(self, record: m.PartitionChangeRecord) -> None:
        name = self._topic_name(record.topic_id)
        partitions = self._writable_partitions(name)
        before = partitions.get(record.partition_id)
        if before is None:
            raise MetadataCorrupt(
                f"partition {name}-{record.partition_id} changes but is not there"
            )
        partitions[record.partition_id] = merge(before, record)
        self._changed.setdefault(name, {})[record.partition_id] = None

    def clear_elr(self, record: m.ClearElrRecord) -> None:
        names = [record.topic_name] if record.topic_name else list(self._look("topics"))
        for name in names:
            if name not in self._look("topics"):
                continue
            partitions = self._writable_partitions(name)
            for partition_id, partition in list(partitions.items()):
                if partition.eligible_leaders or partition.last_known_leaders:
                    partitions[partition_id] = replace(
                        partition, eligible_leaders=(), last_known_leaders=()
                    )
                    self._changed.setdefault(name, {})[partition_id] = None

    # Configs, features, producer ids

    def config(self, record: m.ConfigRecord) -> None:
        resource = ConfigResourceId(record.resource_type, record.resource_name)
        values = dict(self._look("configs").get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        self.keep("configs", resource, values or None)
        self._configs[resource] = None

    def feature(self, record: m.FeatureLevelRecord) -> None:
        self.keep("features", record.name, record.feature_level or None)

    def next_producer_id(self, record: m.ProducerIdsRecord) -> None:
        self._tables["producer_ids"] = ProducerIds(
            record.next_producer_id, record.broker_id, record.broker_epoch
        )

    # Brokers and controllers

    def register_broker(self, record: m.RegisterBrokerRecord) -> None:
        cordoned = record.cordoned_log_dirs
        self._table("brokers")[record.broker_id] = BrokerImage(
            broker_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_ranges(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned=None if cordoned is None else tuple(cordoned),
        )
        self._brokers[record.broker_id] = None

    def unregister_broker(self, record: m.UnregisterBrokerRecord) -> None:
        self.keep("brokers", record.broker_id, None)
        self._brokers[record.broker_id] = None

    def change_broker(self, broker_id: int, **changes: Any) -> None:
        broker = self._look("brokers").get(broker_id)
        if broker is None:
            raise MetadataCorrupt(f"broker {broker_id} changes but was never registered")
        self._table("brokers")[broker_id] = replace(broker, **changes)
        self._brokers[broker_id] = None

    def broker_change(self, record: m.BrokerRegistrationChangeRecord) -> None:
        changes: dict[str, Any] = {}
        if record.fenced:
            changes["fenced"] = record.fenced > 0
        if record.in_controlled_shutdown:
            changes["in_controlled_shutdown"] = record.in_controlled_shutdown > 0
        if record.log_dirs:
            changes["directories"] = tuple(record.log_dirs)
        if record.cordoned_log_dirs is not None:
            changes["cordoned"] = tuple(record.cordoned_log_dirs)
        self.change_broker(record.broker_id, **changes)

    def register_controller(self, record: m.RegisterControllerRecord) -> None:
        self._table("controllers")[record.controller_id] = ControllerNode(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_ranges(record.features),
            zk_migration_ready=record.zk_migration_ready,
        )

    # Access

    def acl(self, record: m.AccessControlEntryRecord | m.RemoveAccessControlEntryRecord) -> None:
        is_added = isinstance(record, m.AccessControlEntryRecord)
        self.keep("acls", record.id, record if is_added else None)
        self._acls[record.id] = None

    # Kept for those who will serve them

    def client_quota(self, record: m.ClientQuotaRecord) -> None:
        entity = tuple(sorted((e.entity_type, e.entity_name or "") for e in record.entity))
        default = tuple(sorted(e.entity_type for e in record.entity if e.entity_name is None))
        key = (entity, default, record.key)
        self.keep("client_quotas", key, None if record.remove else record)

    def scram(self, name: str, mechanism: int, record: m.UserScramCredentialRecord | None) -> None:
        self.keep("scram", (name, mechanism), record)
        self._scram[name, mechanism] = None

    def keep(self, table: str, key: Any, value: Any) -> None:
        """Set an entry of a table; None removes it."""
        if value is None:
            self._table(table).pop(key, None)
        else:
            self._table(table)[key] = value


def merge(before: PartitionImage, record: m.PartitionChangeRecord) -> PartitionImage:
    """Return the partition after a change. A named leader, even the same one, begins an epoch."""
    changes: dict[str, Any] = {"partition_epoch": before.partition_epoch + 1}
    if record.leader != NO_LEADER_CHANGE:
        changes["leader"] = record.leader if record.leader >= 0 else NO_LEADER
        changes["leader_epoch"] = before.leader_epoch + 1
    if record.leader_recovery_state >= 0:
        changes["recovery_state"] = record.leader_recovery_state
    for name, value in (
        ("isr", record.isr),
        ("replicas", record.replicas),
        ("removing", record.removing_replicas),
        ("adding", record.adding_replicas),
        ("directories", record.directories),
        ("eligible_leaders", record.eligible_leader_replicas),
        ("last_known_leaders", record.last_known_elr),
    ):
        if value is not None:
            changes[name] = tuple(value)
    return replace(before, **changes)


def _endpoints(endpoints: list[Any]) -> tuple[ListenerEndpoint, ...]:
    return tuple(ListenerEndpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints)


def _ranges(features: list[Any]) -> dict[str, VersionRange]:
    return {
        f.name: VersionRange(f.min_supported_version, f.max_supported_version)
        for f in sorted(features, key=lambda feature: str(feature.name))
    }


# Records without an entry (NoOp, ZkMigrationState) say nothing about the cluster.
_APPLY: dict[type, Callable[[ImageBuilder, Any], None]] = {
    m.TopicRecord: ImageBuilder.topic,
    m.RemoveTopicRecord: ImageBuilder.remove_topic,
    m.PartitionRecord: ImageBuilder.partition,
    m.PartitionChangeRecord: ImageBuilder.partition_change,
    m.ClearElrRecord: ImageBuilder.clear_elr,
    m.ConfigRecord: ImageBuilder.config,
    m.FeatureLevelRecord: ImageBuilder.feature,
    m.ProducerIdsRecord: ImageBuilder.next_producer_id,
    m.RegisterBrokerRecord: ImageBuilder.register_broker,
    m.UnregisterBrokerRecord: ImageBuilder.unregister_broker,
    m.FenceBrokerRecord: lambda self, r: self.change_broker(r.id, fenced=True),
    m.UnfenceBrokerRecord: lambda self, r: self.change_broker(r.id, fenced=False),
    m.BrokerRegistrationChangeRecord: ImageBuilder.broker_change,
    m.RegisterControllerRecord: ImageBuilder.register_controller,
    m.ClientQuotaRecord: ImageBuilder.client_quota,
    m.UserScramCredentialRecord: lambda self, r: self.scram(r.name, r.mechanism, r),
    m.RemoveUserScramCredentialRecord: lambda self, r: self.scram(r.name, r.mechanism, None),
    m.AccessControlEntryRecord: ImageBuilder.acl,
    m.RemoveAccessControlEntryRecord: ImageBuilder.acl,
    m.DelegationTokenRecord: lambda self, r: self.keep("delegation_tokens", r.token_id, r),
    m.RemoveDelegationTokenRecord: (
        lambda self, r: self.keep("delegation_tokens", r.token_id, None)
    ),
}
