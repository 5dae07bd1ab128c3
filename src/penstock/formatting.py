"""Makes data directories those of a cluster before a node is first started with them.

A start does the same where that is safe (broker/metadata/storage_format.py). Formatting by hand
lets a user choose the cluster's id. Directories that belong to a cluster stay as they are.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.broker.metadata.storage_format import (
    LOCK_FILE,
    NEW_CLUSTER_FEATURES,
    StorageError,
    check_cluster_id,
    controller_endpoint,
    load_meta_properties,
    open_directories_now,
)
from penstock.config.broker import BrokerConfig
from penstock.real.disk import RealDisk
from penstock.real.world import RealWorld
from penstock.world import DiskFailed


class FormatRefused(Exception):
    """The directories are left as they are; the text says why."""


class Formatted(NamedTuple):
    """The directories that were made the cluster's; the metadata's is `metadata`."""

    directories: tuple[str, ...]
    metadata: str


def format_directories(
    config: BrokerConfig,
    cluster_id: str,
    *,
    skip_formatted: bool = False,
    levels: Mapping[str, int] | None = None,
) -> Formatted:
    """Format the directories of a node for a cluster. Raise FormatRefused if one is formatted
    already, unless `skip_formatted`. `levels` are those of features that differ from a new
    cluster."""
    world = RealWorld(group_access=config.group_access)
    disks: list[RealDisk] = []
    try:
        check_cluster_id(cluster_id)
        for root in dict.fromkeys([config.metadata_log_dir, *config.log_dirs]):
            disk = world.disk(root)
            if not disk.lock(LOCK_FILE):
                raise FormatRefused(f"A node is using {root}. Stop it first.")
            disks.append(disk)
        found = {disk.root: load_meta_properties(disk) for disk in disks}
        taken = [root for root, each in found.items() if each is not None]
        if taken and not skip_formatted:
            raise FormatRefused(
                f"Log directory {taken[0]} is already formatted. Use --ignore-formatted to ignore "
                "this directory and format the others."
            )
        open_directories_now(
            disks,
            node_id=config.node_id,
            cluster_id=cluster_id,
            sole_voter=config.sole_voter,
            endpoint=controller_endpoint(config, world.network),
            clock=world.clock,
            entropy=world.entropy,
            features={**NEW_CLUSTER_FEATURES, **(levels or {})},
        )
        made = tuple(root for root, each in found.items() if each is None)
        return Formatted(made, disks[0].root)
    except (StorageError, DiskFailed) as problem:
        raise FormatRefused(str(problem)) from problem
    finally:
        for disk in disks:
            disk.unlock()
        world.close()
