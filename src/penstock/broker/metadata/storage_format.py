"""Data directories: whose they are, and how an empty one is made a new cluster's.

A directory belongs to one cluster and one node; `meta.properties` says which. Formatting writes
what Apache Kafka 4.3.1 writes with `kafka-storage format --standalone`.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY, QUORUM_STATE
from penstock.broker.metadata.snapshot_files import (
    list_snapshots,
    read_snapshot,
    write_snapshot_now,
)
from penstock.config.broker import BrokerConfig
from penstock.controller.image import ELIGIBLE_LEADERS
from penstock.controller.records import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    decode_record,
    encode_record,
)
from penstock.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_whole
from penstock.log.directory import LOG, PartitionDirectory, partition_directories
from penstock.model import CLUSTER_METADATA_TOPIC, id_from_text, id_to_text
from penstock.raft.snapshot import MetadataSnapshotId, snapshot_batches
from penstock.raft.voters import KRAFT_VERSION_MAX, QuorumVoter, VoterEndpoint
from penstock.wire.records.metadata import FeatureLevelRecord
from penstock.world import Clock, Disk, Entropy, Network

META_PROPERTIES = "meta.properties"
LOCK_FILE = ".lock"
BOOTSTRAP = "bootstrap.checkpoint"
FIRST_SNAPSHOT = MetadataSnapshotId(0, 0)
ENDPOINT_DEFAULT = VoterEndpoint("CONTROLLER", "localhost", 0)

# As Apache Kafka 4.3.1 sets them, without share.version and streams.version: not served yet.
NEW_CLUSTER_FEATURES: Mapping[str, int] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    ELIGIBLE_LEADERS: 1,
    "group.version": 1,
    "transaction.version": 2,
}


class StorageError(Exception):
    """A data directory cannot be used as it is."""


class NotFormatted(StorageError):
    """The directory belongs to no cluster yet."""


class MetaPropertiesCorrupt(StorageError):
    """meta.properties cannot be read."""


class MetadataMissing(StorageError):
    """The metadata log is not where it should be, and the directories were in use."""


class WrongNode(StorageError):
    """The directory belongs to another node."""


class WrongCluster(StorageError):
    """The directory belongs to another cluster."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: bytes


def load_meta_properties(disk: Disk) -> MetaProperties | None:
    """Return the meta.properties of a directory; None if the directory was never formatted."""
    content = read_whole(disk, META_PROPERTIES)
    if content is None:
        return None
    fields: dict[str, str] = {}
    for line in content.decode(errors="replace").splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            name, _, value = line.partition("=")
            fields[name.strip()] = value.strip()
    try:
        if fields["version"] != "1":
            raise ValueError(f"version {fields['version']} instead of 1")
        return MetaProperties(
            cluster_id=fields["cluster.id"],
            node_id=int(fields["node.id"]),
            directory_id=id_from_text(fields["directory.id"]),
        )
    except (KeyError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise MetaPropertiesCorrupt(
            f"{disk.root}/{META_PROPERTIES} cannot be read: {what}. Restore it from a copy; the "
            "cluster id and node id are the same in every directory of this node. Do not format: "
            "that would start an empty cluster."
        ) from error


def store_meta_properties_now(disk: Disk, properties: MetaProperties) -> None:
    text = (
        "#\n"
        f"node.id={properties.node_id}\n"
        f"directory.id={id_to_text(properties.directory_id)}\n"
        "version=1\n"
        f"cluster.id={properties.cluster_id}\n"
    )
    disk.replace_now(META_PROPERTIES, text.encode())


def _easy_id(entropy: Entropy) -> str:
    """Return a random id that does not start with '-', which would look like an option."""
    while (text := id_to_text(entropy.uuid())).startswith("-"):
        pass
    return text


def check_cluster_id(cluster_id: str) -> None:
    """Raise StorageError unless Kafka would accept the id: 16 bytes in url-safe base64."""
    try:
        size = len(base64.urlsafe_b64decode(cluster_id + "=="))
    except ValueError:
        size = -1
    if size != 16:
        raise StorageError(
            f"{cluster_id!r} is not a cluster id: 22 characters of url-safe base64 are needed. "
            "Leave it out to get a new one."
        )


def format_now(
    disks: Sequence[Disk],
    *,
    node_id: int,
    cluster_id: str,
    endpoint: VoterEndpoint,
    clock: Clock,
    entropy: Entropy,
    features: Mapping[str, int] = NEW_CLUSTER_FEATURES,
) -> list[MetaProperties]:
    """Make empty directories those of a new cluster with this node as its only voter.

    The first holds the metadata. `meta.properties` comes last in each: a directory that has one
    is complete, and a crash in between is repaired by formatting again.
    """
    made = []
    for index, disk in enumerate(disks):
        directory_id = id_from_text(_easy_id(entropy))
        if index == 0:
            _format_metadata(disk, QuorumVoter(node_id, directory_id, (endpoint,)), clock.wall_ms())
        write_bootstrap_now(disk, clock.wall_ms(), features)
        properties = MetaProperties(cluster_id, node_id, directory_id)
        store_meta_properties_now(disk, properties)
        made.append(properties)
    return made


def _format_metadata(disk: Disk, voter: QuorumVoter, now_ms: int) -> None:
    disk.make_directory(METADATA_DIRECTORY)
    batches = snapshot_batches(
        FIRST_SNAPSHOT,
        iter(()),
        timestamp_ms=now_ms,
        now_ms=now_ms,
        kraft_version=KRAFT_VERSION_MAX,
        voters=(voter,),
    )
    write_snapshot_now(disk, f"{METADATA_DIRECTORY}/{FIRST_SNAPSHOT.file_name}", batches)


def write_bootstrap_now(
    disk: Disk, now_ms: int, features: Mapping[str, int] = NEW_CLUSTER_FEATURES
) -> None:
    """Write the records that a new cluster starts with. A feature at level 0 has none."""
    records = _feature_records(features)
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


def open_directories_now(
    disks: Sequence[Disk],
    *,
    node_id: int,
    cluster_id: str | None,
    sole_voter: bool,
    endpoint: VoterEndpoint,
    clock: Clock,
    entropy: Entropy,
    features: Mapping[str, int] = NEW_CLUSTER_FEATURES,
) -> list[MetaProperties]:
    """Return the owners of directories, in the order given; format empty ones if that is safe.

    The first is the metadata directory. `cluster_id` is the one that was asked for, if any;
    `features` are the levels of a cluster that is formatted.
    """
    assert disks, "a node has at least one data directory"
    if cluster_id is not None:
        check_cluster_id(cluster_id)
    found = [load_meta_properties(disk) for disk in disks]
    known = [each for each in found if each is not None]
    for disk, each in zip(disks, found, strict=True):
        if each is not None:
            _check_owner(disk, each, node_id, cluster_id or known[0].cluster_id)
    if found[0] is None:
        if known:
            raise NotFormatted(
                f"{disks[0].root} holds the metadata of node {node_id} but has no "
                f"{META_PROPERTIES}, while other directories do. If it is a new disk, restore "
                "the metadata from a copy; formatting it would start an empty cluster."
            )
        _check_empty(disks[0])
        if not sole_voter:
            raise NotFormatted(
                f"{disks[0].root} is not formatted, and in a quorum of several voters it is not "
                "formatted on start: a node that forgot its vote could vote twice. Run "
                "`kafka-storage format` with the cluster's id first."
            )
        return format_now(
            disks,
            node_id=node_id,
            cluster_id=cluster_id or _easy_id(entropy),
            endpoint=endpoint,
            clock=clock,
            entropy=entropy,
            features=features,
        )
    _check_metadata(disks)
    return [
        each or _adopt_now(disk, known[0], clock, entropy)
        for disk, each in zip(disks, found, strict=True)
    ]


def _check_empty(disk: Disk) -> None:
    """Raise NotFormatted for a directory without meta.properties that holds a metadata log."""
    if not disk.exists(METADATA_DIRECTORY):
        return
    if any(name.endswith((".log", "quorum-state")) for name in disk.list(METADATA_DIRECTORY)):
        raise NotFormatted(
            f"{disk.root} has no {META_PROPERTIES}, but it holds a metadata log "
            f"({METADATA_DIRECTORY}). Restore {META_PROPERTIES} from a copy, or use an empty "
            "directory; formatting this one would start an empty cluster over the old data."
        )


def _check_metadata(disks: Sequence[Disk]) -> None:
    """Raise MetadataMissing if a node that was in use has no metadata log in its first directory. A
    start would make an empty cluster over the old data."""
    first = disks[0]
    for other in disks[1:]:
        if other.exists(METADATA_DIRECTORY):
            raise MetadataMissing(
                f"The metadata of this node would be looked for in {first.root}, but "
                f"{METADATA_DIRECTORY} is in {other.root}. Were the directories in log.dirs put "
                f"into another order? Name {other.root} first, or set metadata.log.dir="
                f"{other.root}. If the metadata there is an old copy, move it away."
            )
    names = first.list(METADATA_DIRECTORY) if first.exists(METADATA_DIRECTORY) else []
    snapshots = list_snapshots(first, METADATA_DIRECTORY) if names else []
    if any(name.endswith(LOG) for name in names) or any(each.end_offset for each in snapshots):
        return  # the quorum knows whether they are whole
    trace = f"{METADATA_DIRECTORY}/{QUORUM_STATE}" if QUORUM_STATE in names else ""
    for disk in disks:
        trace = trace or _trace_of_use(disk)
        if trace:
            raise MetadataMissing(
                f"{first.root} holds no metadata log ({METADATA_DIRECTORY}/*{LOG}), but this node "
                f"was in use: there is {disk.root}/{trace}. If log.dirs or metadata.log.dir no "
                f"longer name the directory with {METADATA_DIRECTORY}, name it first; else restore "
                f"{METADATA_DIRECTORY} from a copy. Starting without it would make an empty "
                "cluster over the old data."
            )


def _trace_of_use(disk: Disk) -> str:
    """Return the name of a file that only a node in use leaves; empty if there is none."""
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        if disk.exists(name):
            return name
    return next((each.name for each in partition_directories(disk) if _holds_records(each)), "")


def _holds_records(found: PartitionDirectory) -> bool:
    return found.partition.topic != CLUSTER_METADATA_TOPIC


def _adopt_now(disk: Disk, first: MetaProperties, clock: Clock, entropy: Entropy) -> MetaProperties:
    """Format an empty directory that was added to a node later."""
    write_bootstrap_now(disk, clock.wall_ms())
    directory_id = id_from_text(_easy_id(entropy))
    properties = MetaProperties(first.cluster_id, first.node_id, directory_id)
    store_meta_properties_now(disk, properties)
    return properties


def _check_owner(disk: Disk, found: MetaProperties, node_id: int, cluster_id: str) -> None:
    if found.cluster_id != cluster_id:
        raise WrongCluster(
            f"{disk.root} belongs to cluster {found.cluster_id}, not {cluster_id}. Point log.dirs "
            "to this cluster's directories, or use an empty directory."
        )
    if found.node_id != node_id:
        raise WrongNode(
            f"{disk.root} belongs to node {found.node_id}, and this is node {node_id}. Set "
            f"node.id={found.node_id}, or use another directory."
        )


def controller_endpoint(config: BrokerConfig, network: Network) -> VoterEndpoint:
    """Return the first controller listener. An empty host means all addresses: the endpoint then
    has the machine's name."""
    for listener in config.controller_listeners:
        return VoterEndpoint(listener.name, listener.host or network.host_name(), listener.port)
    return ENDPOINT_DEFAULT
