"""Records of the metadata log, and the frame around them.

In the log's values a record follows three unsigned varints: the frame version (1), the record type
and the record version.  Types of features that we do not serve are here too, so that a directory
written by Kafka can be replayed.
"""

from typing import Final

from penstock.wire.codec import read_from, write_into
from penstock.wire.primitives import (
    ZERO_UUID,
    Buffer,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Malformed,
    UnknownRecord,
    Uuid,
    read_uvarint,
    write_uvarint,
)
from penstock.wire.schema import field, record, records_in, schema_of
from penstock.wire.structures import EntityData, RegisteredFeature, RegisteredListener


@record(key=0, versions="0-4", flexible=0)
class RegisterBrokerRecord:
    """A new broker: its listeners and its supported features."""

    broker_id: Int32 = 0
    is_migrating_zk_broker: bool = field("2+", default=False)
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: list[RegisteredListener] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = field("1+", default=False)
    log_dirs: list[Uuid] = field("3+", tag=0, default_factory=list)
    cordoned_log_dirs: list[Uuid] | None = field("4+", tag=1, default=None)


@record(key=1, versions="0", flexible=0)
class UnregisterBrokerRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


@record(key=2, versions="0", flexible=0)
class TopicRecord:
    name: str = ""
    topic_id: Uuid = ZERO_UUID


@record(key=3, versions="0-2", flexible=0)
class PartitionRecord:
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: list[Int32] = field(default_factory=list)
    isr: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(tag=0, default=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: list[Uuid] = field("1+", default_factory=list)
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=1, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=2, default=None)


@record(key=4, versions="0", flexible=0)
class ConfigRecord:
    resource_type: Int8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""


@record(key=5, versions="0-2", flexible=0)
class PartitionChangeRecord:
    """The changes of a partition; fields with their default are unchanged."""

    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: list[Int32] | None = field(tag=0, default=None)
    leader: Int32 = field(tag=1, default=-2)
    replicas: list[Int32] | None = field(tag=2, default=None)
    removing_replicas: list[Int32] | None = field(tag=3, default=None)
    adding_replicas: list[Int32] | None = field(tag=4, default=None)
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    directories: list[Uuid] | None = field("1+", tag=8, default=None)
    eligible_leader_replicas: list[Int32] | None = field("2+", tag=6, default=None)
    last_known_elr: list[Int32] | None = field("2+", tag=7, default=None)


@record(key=7, versions="0", flexible=0)
class FenceBrokerRecord:
    id: Int32 = 0
    epoch: Int64 = 0


@record(key=8, versions="0", flexible=0)
class UnfenceBrokerRecord:
    id: Int32 = 0
    epoch: Int64 = 0


@record(key=9, versions="0", flexible=0)
class RemoveTopicRecord:
    topic_id: Uuid = ZERO_UUID


@record(key=10, versions="0", flexible=0)
class DelegationTokenRecord:
    owner: str = ""
    requester: str = ""
    renewers: list[str] = field(default_factory=list)
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: str = ""


@record(key=11, versions="0", flexible=0)
class UserScramCredentialRecord:
    name: str = ""
    mechanism: Int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: Int32 = 0


@record(key=12, versions="0", flexible=0)
class FeatureLevelRecord:
    name: str = ""
    feature_level: Int16 = 0


@record(key=14, versions="0", flexible=0)
class ClientQuotaRecord:
    entity: list[EntityData] = field(default_factory=list)
    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


@record(key=15, versions="0", flexible=0)
class ProducerIdsRecord:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


@record(key=17, versions="0-3", flexible=0)
class BrokerRegistrationChangeRecord:
    """The changes of a broker; the values -1, 0 and 1 mean down, unchanged and up."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Int8 = field(tag=0, default=0)
    in_controlled_shutdown: Int8 = field("1+", tag=1, default=0)
    log_dirs: list[Uuid] = field("2+", tag=2, default_factory=list)
    cordoned_log_dirs: list[Uuid] | None = field("3+", tag=3, default=None)


@record(key=18, versions="0", flexible=0)
class AccessControlEntryRecord:
    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@record(key=19, versions="0", flexible=0)
class RemoveAccessControlEntryRecord:
    id: Uuid = ZERO_UUID


@record(key=20, versions="0", flexible=0)
class NoOpRecord:
    """Advances the committed offset, without content."""


@record(key=21, versions="0", flexible=0)
class ZkMigrationStateRecord:
    zk_migration_state: Int8 = 0


@record(key=22, versions="0", flexible=0)
class RemoveUserScramCredentialRecord:
    name: str = ""
    mechanism: Int8 = 0


@record(key=23, versions="0", flexible=0)
class BeginTransactionRecord:
    name: str | None = field(tag=0, default=None)


@record(key=24, versions="0", flexible=0)
class EndTransactionRecord:
    """The end of a transaction, without content."""


@record(key=25, versions="0", flexible=0)
class AbortTransactionRecord:
    reason: str | None = field(tag=0, default=None)


@record(key=26, versions="0", flexible=0)
class RemoveDelegationTokenRecord:
    token_id: str = ""


@record(key=27, versions="0", flexible=0)
class RegisterControllerRecord:
    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[RegisteredListener] = field(default_factory=list)
    features: list[RegisteredFeature] = field(default_factory=list)


@record(key=28, versions="0", flexible=0)
class ClearElrRecord:
    topic_name: str = ""


METADATA_RECORDS: Final = dict(records_in(globals()))

FRAME_VERSION: Final = 1


def write_metadata_record(record: object, version: int) -> bytes:
    """Return the value of a metadata log record."""
    key = schema_of(type(record)).key
    assert key is not None, "a metadata record has a type"
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, key)
    write_uvarint(out, version)
    write_into(record, version, out)
    return bytes(out)


def read_metadata_record(data: Buffer) -> tuple[object, int]:
    """Return the record and its version; raise `UnknownRecord` for an unknown type."""
    try:
        frame_version, position = read_uvarint(data, 0)
        key, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except IndexError as error:
        raise Malformed("a metadata record ends within its frame") from error
    if frame_version != FRAME_VERSION:
        raise Malformed(f"a metadata record in frame version {frame_version}")
    cls: type[object] | None = METADATA_RECORDS.get(key)
    if cls is None:
        raise UnknownRecord(key)
    record, position = read_from(cls, version, data, position)
    if position != len(data):
        raise Malformed(f"{len(data) - position} bytes after a {cls.__name__}")
    return record, version
