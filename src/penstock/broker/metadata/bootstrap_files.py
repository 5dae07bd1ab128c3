"""First records of a cluster, as files: `bootstrap.checkpoint` and the quorum's first snapshot.

Both have the bytes that Apache Kafka 4.3.1's `kafka-storage format` writes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.snapshot_files import read_snapshot, write_snapshot_now
from penstock.controller.image import ELIGIBLE_LEADERS
from penstock.controller.records import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    decode_record,
    encode_record,
)
from penstock.raft.snapshot import MetadataSnapshotId, snapshot_batches
from penstock.raft.voters import KRAFT_VERSION_MAX, Voters
from penstock.wire.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from penstock.world import Disk

BOOTSTRAP = "bootstrap.checkpoint"
FIRST_SNAPSHOT = MetadataSnapshotId(0, 0)

# As Apache Kafka 4.3.1 sets them, without share.version and streams.version: not served yet.
NEW_CLUSTER_FEATURES: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    ELIGIBLE_LEADERS: 1,
    "group.version": 1,
    "transaction.version": 2,
}


def write_quorum_snapshot_now(disk: Disk, voters: Voters, now_ms: int) -> None:
    """Write the snapshot from which a quorum of kraft.version 1 learns its first voters."""
    disk.make_directory(METADATA_DIRECTORY)
    batches = snapshot_batches(
        FIRST_SNAPSHOT,
        iter(()),
        timestamp_ms=now_ms,
        now_ms=now_ms,
        kraft_version=KRAFT_VERSION_MAX,
        voters=voters,
    )
    write_snapshot_now(disk, f"{METADATA_DIRECTORY}/{FIRST_SNAPSHOT.file_name}", batches)


def write_bootstrap_now(
    disk: Disk,
    now_ms: int,
    features: Mapping[str, int] = NEW_CLUSTER_FEATURES,
    users: Sequence[UserScramCredentialRecord] = (),
) -> None:
    """Write the records that a new cluster starts with. A feature at level 0 has none."""
    records = [*_feature_records(features), *users]
    batches = snapshot_batches(
        FIRST_SNAPSHOT,
        (encode_record(record, METADATA_VERSION_LATEST) for record in records),
        timestamp_ms=0,
        now_ms=now_ms,
        kraft_version=0,
        voters=(),
    )
    write_snapshot_now(disk, BOOTSTRAP, batches)


def _feature_records(features: Mapping[str, int]) -> list[FeatureLevelRecord]:
    levels = [(name, level) for name, level in features.items() if level]
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels]


def read_bootstrap(disk: Disk) -> list[Any]:
    """Return the records of bootstrap.checkpoint; without the file, those of a new cluster."""
    if not disk.exists(BOOTSTRAP):
        return _feature_records(NEW_CLUSTER_FEATURES)
    snapshot = read_snapshot(disk, BOOTSTRAP, FIRST_SNAPSHOT)
    return [decode_record(value) for value in snapshot.values]
