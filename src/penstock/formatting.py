"""Makes data directories those of a cluster before a node is first started with them.

A start does the same where that is safe (broker/metadata/storage_format.py). Formatting by hand
lets a user choose the cluster's id, its features and the first voters of its quorum. Directories
that belong to a cluster stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.broker.metadata.bootstrap_files import NEW_CLUSTER_FEATURES
from penstock.broker.metadata.initial_controllers import parse_initial_controllers
from penstock.broker.metadata.initial_users import parse_initial_users
from penstock.broker.metadata.storage_format import (
    LOCK_FILE,
    FormatRequest,
    StorageError,
    check_cluster_id,
    check_metadata_directory,
    check_owners,
    controller_endpoint,
    format_now,
    load_meta_properties,
    new_directory_id,
)
from penstock.config.broker import BrokerConfig
from penstock.config.listeners import VoterAddress
from penstock.credentials.scram import SALT_BYTES
from penstock.model import id_to_text
from penstock.raft.voters import QuorumVoter, Voters
from penstock.real.disk import RealDisk
from penstock.real.world import RealWorld, SystemEntropy
from penstock.world import DiskFailed, Entropy


class FormatRejected(Exception):
    """The directories are left as they are; the text says why."""


class Formatted(NamedTuple):
    """The directories that were made the cluster's; the metadata's is `metadata`. `voters` are the
    ids of the first voters, empty if none were given."""

    directories: tuple[str, ...]
    metadata: str
    voters: tuple[int, ...]


def format_directories(
    config: BrokerConfig,
    cluster_id: str,
    *,
    standalone: bool = False,
    initial_controllers: str | None = None,
    skip_formatted: bool = False,
    levels: Mapping[str, int] | None = None,
    users: Sequence[str] = (),
) -> Formatted:
    """Format the directories of a node for a cluster. Raise FormatRejected if one is formatted
    already, unless `skip_formatted`. `standalone` makes this node the only voter;
    `initial_controllers` names several. `levels` are those of features that differ from a new
    cluster. `users` are the texts of --add-scram."""
    world = RealWorld(group_access=config.group_access)
    disks: list[RealDisk] = []
    try:
        check_cluster_id(cluster_id)
        voters = _first_voters(config, world, standalone, initial_controllers)
        for root in dict.fromkeys([config.metadata_log_dir, *config.log_dirs]):
            disk = world.disk(root)
            if not disk.lock(LOCK_FILE):
                raise FormatRejected(f"A node is using {root}. Stop it first.")
            disks.append(disk)
        check_owners(disks, config.node_id, cluster_id)
        formatted = [disk.root for disk in disks if load_meta_properties(disk) is not None]
        if formatted and not skip_formatted:
            raise FormatRejected(
                f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to "
                "ignore this directory and format the others."
            )
        if disks[0].root not in formatted:
            check_metadata_directory(
                disks, is_controller=config.is_controller, sole_voter=config.sole_voter
            )
        features = {**NEW_CLUSTER_FEATURES, **(levels or {})}
        records = parse_initial_users(users, lambda: _new_salt(world.entropy))
        request = FormatRequest(cluster_id, config.node_id, voters, features, records)
        format_now(disks, request, clock=world.clock, entropy=world.entropy)
        made = tuple(disk.root for disk in disks if disk.root not in formatted)
        return Formatted(made, disks[0].root, tuple(each.node_id for each in voters))
    except (StorageError, DiskFailed) as problem:
        raise FormatRejected(str(problem)) from problem
    finally:
        for disk in disks:
            disk.unlock()
        world.close()


def _new_salt(entropy: Entropy) -> bytes:
    return (entropy.uuid() + entropy.uuid())[:SALT_BYTES]


def new_cluster_id() -> str:
    return id_to_text(new_directory_id(SystemEntropy()))


def initial_controllers(controllers: Sequence[VoterAddress]) -> str:
    """Return controllers with new directory ids, as `kafka-storage format` takes the first ones."""
    entropy = SystemEntropy()
    return ",".join(f"{each}:{id_to_text(new_directory_id(entropy))}" for each in controllers)


def _first_voters(
    config: BrokerConfig, world: RealWorld, standalone: bool, initial_controllers: str | None
) -> Voters:
    endpoint = controller_endpoint(config, world.network)
    if standalone:
        return (QuorumVoter(config.node_id, new_directory_id(world.entropy), (endpoint,)),)
    if initial_controllers is None:
        return ()
    names = config.controller_listener_names
    voters = parse_initial_controllers(
        initial_controllers, names[0] if names else endpoint.listener
    )
    if not config.is_controller and any(each.node_id == config.node_id for each in voters):
        raise FormatRejected(
            f"--initial-controllers names node {config.node_id}, whose process.roles has no "
            "controller. Add the role, or leave the node out."
        )
    return voters
