"""Metadata records as bytes, in the versions that the cluster's metadata.version allows.

A record of an unknown type or version is kept as it was written, and a snapshot keeps it too. A
newer server can then be started on the same directory again.
"""

from dataclasses import dataclass
from typing import Any

from penstock.wire.primitives import Buffer, UnknownMessageVersion, UnknownRecord
from penstock.wire.records.metadata import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    read_metadata_record,
    write_metadata_record,
)

METADATA_VERSION = "metadata.version"
METADATA_VERSION_MIN = 7  # 3.3-IV3
METADATA_VERSION_LATEST = 30  # 4.3-IV0
ISR_SHRINK_KEEPS_EPOCH_SINCE = 12  # 3.6-IV0: an older broker needs a new epoch (KAFKA-15021)
SCRAM_SINCE = 11  # 3.5-IV2: SCRAM credentials
CONTROLLER_REGISTRATION_SINCE = 15  # 3.7-IV0
DIRECTORIES_SINCE = 17  # 3.7-IV2: log directories in registrations and partitions
ELIGIBLE_LEADERS_SINCE = 23  # 4.0-IV1: eligible leader replicas
CORDONED_SINCE = 30  # 4.3-IV0: cordoned log directories
MIGRATION_SINCE = 8  # 3.4-IV0: a field about ZooKeeper in registrations


@dataclass(frozen=True, slots=True)
class UnreadRecord:
    """A record that only a newer server understands."""

    raw: bytes


def record_version(record: Any, metadata_version: int) -> int:
    """Return the version in which Kafka writes this record at that metadata.version."""
    match record:
        case PartitionRecord() | PartitionChangeRecord():
            if metadata_version >= ELIGIBLE_LEADERS_SINCE:
                return 2
            return 1 if metadata_version >= DIRECTORIES_SINCE else 0
        case RegisterBrokerRecord():
            if metadata_version >= CORDONED_SINCE:
                return 4
            if metadata_version >= DIRECTORIES_SINCE:
                return 3
            return 2 if metadata_version >= MIGRATION_SINCE else 1
        case BrokerRegistrationChangeRecord():
            if record.cordoned_log_dirs is not None:
                return 3
            if record.log_dirs:
                return 2
            return 1 if record.in_controlled_shutdown else 0
        case _:
            return 0


def encode_record(record: Any, metadata_version: int) -> bytes:
    if isinstance(record, UnreadRecord):
        return record.raw
    return write_metadata_record(record, record_version(record, metadata_version))


def decode_record(data: Buffer) -> Any:
    """Return the record, or an UnreadRecord where this server is too old for it."""
    try:
        return read_metadata_record(data)[0]
    except (UnknownRecord, UnknownMessageVersion):
        return UnreadRecord(bytes(data))
