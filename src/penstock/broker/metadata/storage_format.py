"""Data directories: whose they are, and how empty ones become a cluster's.

A directory belongs to one cluster and one node; `meta.properties` says which. Formatting writes
what Apache Kafka 4.3.1 writes with `kafka-storage format`.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.broker.metadata.bootstrap_files import (
    NEW_CLUSTER_FEATURES,
    write_bootstrap_now,
    write_quorum_snapshot_now,
)
from penstock.broker.metadata.quorum_files import (
    METADATA_DIRECTORY,
    QUORUM_STATE,
    missing_state_text,
)
from penstock.broker.metadata.snapshot_files import list_snapshots
from penstock.config.broker import BrokerConfig
from penstock.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_whole
from penstock.log.directory import LOG, PartitionDirectory, partition_directories
from penstock.model import CLUSTER_METADATA_TOPIC, id_from_text, id_to_text
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import QuorumVoter, VoterEndpoint, Voters
from penstock.wire.records.metadata import UserScramCredentialRecord
from penstock.world import Clock, Disk, Entropy, Network

META_PROPERTIES = "meta.properties"
LOCK_FILE = ".lock"
ENDPOINT_DEFAULT = VoterEndpoint("CONTROLLER", "localhost", 0)


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


class CopiedDirectory(StorageError):
    """Two directories of a node have one directory id."""


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
            "the node would forget what the directory holds."
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
            "`kafka-storage random-uuid` prints one."
        )


@dataclass(frozen=True, slots=True)
class FormatRequest:
    """A cluster for empty directories. `voters` are the first voters of its quorum, empty if the
    quorum is static or exists already."""

    cluster_id: str
    node_id: int
    voters: Voters = ()
    features: Mapping[str, int] = field(default_factory=lambda: NEW_CLUSTER_FEATURES)
    users: tuple[UserScramCredentialRecord, ...] = ()


def format_now(
    disks: Sequence[Disk], request: FormatRequest, *, clock: Clock, entropy: Entropy
) -> list[MetaProperties]:
    """Format directories that belong to no cluster, and return the owners of all.

    The first is the metadata directory. If the node is one of the voters, that directory gets the
    voter's directory id. `meta.properties` comes last in each: a directory that has one is
    complete, and a crash in between is repaired by formatting again.
    """
    owners = []
    for index, disk in enumerate(disks):
        if (known := load_meta_properties(disk)) is not None:
            owners.append(known)
            continue
        directory_id = new_directory_id(entropy)
        if index == 0 and request.voters:
            write_quorum_snapshot_now(disk, request.voters, clock.wall_ms())
            for voter in request.voters:
                if voter.node_id == request.node_id:
                    directory_id = voter.directory_id
        write_bootstrap_now(disk, clock.wall_ms(), request.features, request.users)
        properties = MetaProperties(request.cluster_id, request.node_id, directory_id)
        store_meta_properties_now(disk, properties)
        owners.append(properties)
    return owners


def new_directory_id(entropy: Entropy) -> bytes:
    return id_from_text(_easy_id(entropy))


def open_directories_now(
    disks: Sequence[Disk],
    *,
    node_id: int,
    cluster_id: str | None,
    sole_voter: bool,
    endpoint: VoterEndpoint,
    clock: Clock,
    entropy: Entropy,
    is_controller: bool = True,
    static_voters: bool = False,
) -> list[MetaProperties]:
    """Return the owners of directories, in the order given; format empty ones if that is safe.

    The first is the metadata directory. `cluster_id` is the one that was asked for, if any.
    `static_voters` tells that controller.quorum.voters is set.
    """
    known = check_directories(
        disks,
        node_id=node_id,
        cluster_id=cluster_id,
        sole_voter=sole_voter,
        is_controller=is_controller,
        static_voters=static_voters,
    )
    voters: Voters = ()
    if known is None and not static_voters:
        voters = (QuorumVoter(node_id, new_directory_id(entropy), (endpoint,)),)
    if known is not None:
        cluster_id = known.cluster_id
    request = FormatRequest(cluster_id or _easy_id(entropy), node_id, voters)
    return format_now(disks, request, clock=clock, entropy=entropy)


def check_directories(
    disks: Sequence[Disk],
    *,
    node_id: int,
    cluster_id: str | None,
    sole_voter: bool,
    is_controller: bool,
    static_voters: bool,
) -> MetaProperties | None:
    """Raise StorageError if a node must not start with the directories, and change nothing. Return
    an owner that was found, None if no directory is formatted."""
    assert disks, "a node has at least one data directory"
    if cluster_id is not None:
        check_cluster_id(cluster_id)
    known = check_owners(disks, node_id, cluster_id)
    if load_meta_properties(disks[0]) is None:
        check_metadata_directory(disks, is_controller=is_controller, sole_voter=sole_voter)
        if known is None and not sole_voter:
            names_voters = is_controller and not static_voters
            raise NotFormatted(unformatted_text(disks[0].root, names_voters=names_voters))
    else:
        _check_metadata(disks, is_controller=is_controller, sole_voter=sole_voter)
    return known


def check_owners(
    disks: Sequence[Disk], node_id: int, cluster_id: str | None
) -> MetaProperties | None:
    """Raise WrongCluster, WrongNode or CopiedDirectory if the directories are not this node's own.
    Return an owner that was found, None if no directory is formatted."""
    first: MetaProperties | None = None
    roots: dict[bytes, str] = {}
    for disk in disks:
        if (found := load_meta_properties(disk)) is None:
            continue
        first = first or found
        _check_owner(disk, found, node_id, cluster_id or first.cluster_id)
        if (other := roots.setdefault(found.directory_id, disk.root)) != disk.root:
            raise CopiedDirectory(
                f"{disk.root} has the same directory id as {other}, so one is a copy of the other. "
                "Leave the copy out of log.dirs; for a new directory name an empty one."
            )
    return first


def check_metadata_directory(
    disks: Sequence[Disk], *, is_controller: bool, sole_voter: bool
) -> None:
    """Raise if the first directory, which has no meta.properties, cannot be formatted safely. A
    broker that is no controller has no vote to forget, and fetches the metadata again."""
    _check_order(disks)
    if is_controller and any(load_meta_properties(disk) is not None for disk in disks[1:]):
        raise NotFormatted(
            f"{disks[0].root} holds the metadata of this node but has no {META_PROPERTIES}, while "
            "other directories do. If it is a new disk, restore the metadata from a copy: "
            f"{_consequence(sole_voter)}"
        )
    _check_empty(disks[0])


def unformatted_text(root: str, *, names_voters: bool) -> str:
    """Return why a node of several does not start in an empty directory, and what to run.
    `names_voters` is true of controllers whose voters the configuration does not name."""
    voters = (
        " A new quorum needs `--initial-controllers ID@HOST:PORT:DIRECTORY,...` too, the same on "
        "all controllers; each DIRECTORY is an id of its own."
    )
    return (
        f"{root} is not formatted, and only a node that is the whole quorum formats its "
        "directories on start. Run `kafka-storage format --cluster-id ID --config FILE` first, "
        "with one cluster id on all nodes; `kafka-storage random-uuid` prints one."
        f"{voters if names_voters else ''}"
    )


def _consequence(sole_voter: bool) -> str:
    """Return the harm that a start without the metadata would do."""
    if sole_voter:
        return "without it, this node would start an empty cluster."
    return "without it, this controller could vote twice in one epoch."


def _check_empty(disk: Disk) -> None:
    """Raise NotFormatted for a directory without meta.properties that holds a metadata log."""
    if not disk.exists(METADATA_DIRECTORY):
        return
    if any(name.endswith((".log", "quorum-state")) for name in disk.list(METADATA_DIRECTORY)):
        raise NotFormatted(
            f"{disk.root} has no {META_PROPERTIES}, but it holds a metadata log "
            f"({METADATA_DIRECTORY}). Restore {META_PROPERTIES} from a copy. Do not format the "
            "directory: the node would forget what that log holds."
        )


def _check_order(disks: Sequence[Disk]) -> None:
    """Raise MetadataMissing if a directory other than the first has the metadata."""
    first = disks[0]
    for other in disks[1:]:
        if other.exists(METADATA_DIRECTORY):
            raise MetadataMissing(
                f"The metadata of this node would be looked for in {first.root}, but "
                f"{METADATA_DIRECTORY} is in {other.root}. Were the directories in log.dirs put "
                f"into another order? Name {other.root} first, or set metadata.log.dir="
                f"{other.root}. If the metadata there is an old copy, move it away."
            )


def _check_metadata(disks: Sequence[Disk], *, is_controller: bool, sole_voter: bool) -> None:
    """Raise MetadataMissing if a controller that was in use has no metadata log in its first
    directory. A sole voter would start an empty cluster, another one could vote twice."""
    _check_order(disks)
    first = disks[0]
    names = first.list(METADATA_DIRECTORY) if first.exists(METADATA_DIRECTORY) else []
    snapshots = list_snapshots(first, METADATA_DIRECTORY) if names else []
    segments = [name for name in names if name.endswith(LOG)]
    if segments or any(each.end_offset for each in snapshots):
        if is_controller and not sole_voter and QUORUM_STATE not in names:
            _check_unused(first, segments, snapshots)
        return  # the quorum knows whether they are whole
    if not is_controller:
        return  # fetched again from the controllers
    trace = f"{METADATA_DIRECTORY}/{QUORUM_STATE}" if QUORUM_STATE in names else ""
    for disk in disks:
        trace = trace or _trace_of_use(disk)
        if trace:
            raise MetadataMissing(
                f"{first.root} holds no metadata log ({METADATA_DIRECTORY}/*{LOG}), but this node "
                f"was in use: there is {disk.root}/{trace}. If log.dirs or metadata.log.dir no "
                f"longer name the directory with {METADATA_DIRECTORY}, name it first; else restore "
                f"{METADATA_DIRECTORY} from a copy: "
                f"{_consequence(sole_voter)}"
            )


def _check_unused(
    disk: Disk, segments: Sequence[str], snapshots: Sequence[MetadataSnapshotId]
) -> None:
    """Raise MetadataMissing if a metadata log without `quorum-state` has records."""
    sizes = [disk.size(f"{METADATA_DIRECTORY}/{name}") for name in segments]
    if any(sizes) or any(each.end_offset for each in snapshots):
        raise MetadataMissing(missing_state_text(f"{disk.root}/{METADATA_DIRECTORY}"))


def _trace_of_use(disk: Disk) -> str:
    """Return the name of a file that only a node in use leaves; empty if there is none."""
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        if disk.exists(name):
            return name
    return next((each.name for each in partition_directories(disk) if _holds_records(each)), "")


def _holds_records(found: PartitionDirectory) -> bool:
    return found.partition.topic != CLUSTER_METADATA_TOPIC


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
    """Return the address that other nodes use for this controller. An empty host means all
    addresses: the endpoint then has the machine's name."""
    own = {listener.name for listener in config.controller_listeners}
    addresses = {each.name: each for each in config.advertised_listeners if each.name in own}
    for name in config.controller_listener_names:
        if (found := addresses.get(name)) is not None:
            return VoterEndpoint(name, found.host or network.host_name(), found.port)
    return ENDPOINT_DEFAULT
