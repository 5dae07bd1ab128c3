"""Keeps partitions offline that a start does not find, with one log line per cause.

Former partitions are known from the file of placements, and from the directory ids that Apache
Kafka writes into the metadata. Without that file, the recovery points of each directory name them.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.partitions.replicas import OfflineReplica
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.storage.placements import Placement, PlacementState, TopicIdPartition
from penstock.controller.image import PartitionImage
from penstock.log.directory import ACCEPT_LOSS
from penstock.model import ZERO_ID, TopicPartition, id_to_text

if TYPE_CHECKING:
    from penstock.broker.startup.broker_view import StartupBroker

log = logging.getLogger("penstock.losses")

NAMED_MAX = 20  # partitions that one message names
RESERVED_DIRECTORIES_BELOW = 100  # ids that are small numbers mean something else


class _MissingPartition(NamedTuple):
    """A lost partition: the reason, and its last directory."""

    reason: str
    directory_id: bytes
    recovery_point: int = 0
    state: PlacementState = PlacementState.OFFLINE


def keep_lost_offline(
    broker: "StartupBroker",
    recovery_points: Mapping[LogDirectory, Mapping[TopicPartition, int]],
    start_offsets: Mapping[LogDirectory, Mapping[TopicPartition, int]],
    departed: Mapping[str, Sequence[bytes]],
) -> None:
    """Keep lost partitions offline; leave those that were never created to be created. Recovery
    points and start offsets are those of readable directories. `departed` names the directories of
    partitions that have moved."""
    replicas = broker.replicas
    directories = {each.directory_id: each for each in replicas.directories}
    for directory_id, path in replicas.placements.paths.items():
        named = replicas.directory_at(path)
        if named is not None and named.failed:
            directories[directory_id] = named  # its id could not be read
    lost: dict[str, list[str]] = {}
    for topic, state in replicas.missing():
        partition = TopicPartition(topic.name, state.partition_id)
        place = (topic.topic_id, state.partition_id)
        placed = replicas.placements.before.get(place)
        moved_to = _failed_of(departed.get(str(partition), ()), directories)
        if moved_to is not None:
            # The moved copy counts and could not be opened; the file of placements may be older.
            loss: _MissingPartition | None = _in_failed(
                moved_to, moved_to.directory_id, PlacementState.OFFLINE
            )
        elif placed is None or placed.state is PlacementState.SOUGHT:
            perhaps_in = _perhaps_in(broker, place, placed)
            loss = _unplaced(broker, state, partition, perhaps_in, directories, recovery_points)
        elif placed.directory_id in directories:
            loss = _placed(partition, placed, directories[placed.directory_id], recovery_points)
        else:
            path = replicas.placements.paths.get(placed.directory_id, "another directory")
            loss = _elsewhere(path, placed.directory_id)
        if loss is None:
            continue
        lost.setdefault(loss.reason, []).append(str(partition))
        what = f"{partition} stays offline: {loss.reason}"
        where = directories.get(loss.directory_id)
        # Kept for a restore of the log: deleted records stay deleted.
        start = 0 if where is None else start_offsets.get(where, {}).get(partition, 0)
        offline_replica = OfflineReplica(
            what, loss.directory_id, partition, loss.recovery_point, start, state=loss.state
        )
        replicas.keep_offline(topic, state.partition_id, offline_replica)
    for reason, names in lost.items():
        _log_lost(reason, names)


def _failed_of(
    directory_ids: Sequence[bytes], directories: Mapping[bytes, LogDirectory]
) -> LogDirectory | None:
    """Return the failed directory that a partition has moved to, if there is one."""
    found = (directories.get(each) for each in directory_ids)
    return next((each for each in found if each is not None and each.failed), None)


def _log_lost(reason: str, names: list[str]) -> None:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    log.error(
        "%d partitions stay offline (%s%s): %s. To give up the records of one, delete its topic, or"
        " make a directory of its name (%s) in one of log.dirs, with an empty file %s in it, and"
        " start again",
        len(names),
        ", ".join(names[:NAMED_MAX]),
        more,
        reason,
        names[0],
        ACCEPT_LOSS,
    )


def _placed(
    partition: TopicPartition,
    placed: Placement,
    directory: LogDirectory,
    recovery_points: Mapping[LogDirectory, Mapping[TopicPartition, int]],
) -> _MissingPartition | None:
    """Return the loss of a partition whose directory is still in log.dirs."""
    if directory.failed:
        # A partition without durable records is created again when its directory is back.
        state = (
            PlacementState.MADE if placed.state is PlacementState.MADE else PlacementState.OFFLINE
        )
        return _in_failed(directory, placed.directory_id, state)
    if placed.state is PlacementState.MADE:
        log.warning(
            "%s was made in %s and is not there. Nothing of it was durable: it is made anew",
            partition,
            directory.disk.root,
        )
        return None
    return _vanished(directory, recovery_points[directory].get(partition, 0))


def _perhaps_in(
    broker: "StartupBroker", place: TopicIdPartition, sought: Placement | None
) -> Mapping[bytes, str]:
    """Return directories that may hold a partition which was perhaps never created."""
    placements = broker.replicas.placements
    found = dict(placements.announced_in(place))
    if sought is not None and sought.directory_id != ZERO_ID:
        path = placements.paths.get(sought.directory_id, "another directory")
        found.setdefault(sought.directory_id, path)
    return found


def _unplaced(
    broker: "StartupBroker",
    state: PartitionImage,
    partition: TopicPartition,
    perhaps_in: Mapping[bytes, str],
    directories: Mapping[bytes, LogDirectory],
    recovery_points: Mapping[LogDirectory, Mapping[TopicPartition, int]],
) -> _MissingPartition | None:
    """Return the loss of a partition without a placement. Created by Apache Kafka, or just before a
    kill, the partition may be in any directory that is away."""
    assigned = _assigned(broker.node_id, state)
    if assigned is not None and assigned not in directories:
        return _elsewhere("another directory", assigned)
    for directory_id, path in perhaps_in.items():
        if directory_id not in directories:
            return _elsewhere(path, directory_id, PlacementState.SOUGHT)
    for directory in directories.values():
        if directory.failed:
            return _in_failed(directory, broker.replicas.identity(directory), PlacementState.SOUGHT)
    if not broker.replicas.placements.known:
        for directory, points in recovery_points.items():
            if points.get(partition, 0) > 0:
                return _vanished(directory, points[partition])
    return None


def _assigned(node_id: int, state: PartitionImage) -> bytes | None:
    """Return the directory that the metadata assigns, if it assigns one."""
    place = state.replicas.index(node_id)
    if place >= len(state.directories):
        return None
    directory_id = state.directories[place]
    reserved = int.from_bytes(directory_id, "big") < RESERVED_DIRECTORIES_BELOW
    return None if reserved else directory_id


def _elsewhere(
    path: str, directory_id: bytes, state: PlacementState = PlacementState.OFFLINE
) -> _MissingPartition:
    verb = "may be" if state is PlacementState.SOUGHT else "were"
    reason = (
        f"they {verb} in {path} (directory.id {id_to_text(directory_id)}), and no directory in "
        "log.dirs has that id now. If its disk is not mounted, stop the node, mount it and start "
        "again; if log.dirs no longer names it, name it again"
    )
    return _MissingPartition(reason, directory_id, state=state)


def _in_failed(
    directory: LogDirectory, directory_id: bytes, state: PlacementState
) -> _MissingPartition:
    reason = (
        f"log directory {directory.disk.root} failed ({directory.failed}), and they are or may be "
        "in it. Repair it and start again"
    )
    return _MissingPartition(reason, directory_id, state=state)


def _vanished(directory: LogDirectory, recovery_point: int) -> _MissingPartition:
    reason = (
        f"their directories were in {directory.disk.root} and are gone. Restore them from a copy "
        "and start again"
    )
    return _MissingPartition(reason, directory.directory_id, recovery_point)
