"""What was on this node and is not found at its start stays offline, with one message per cause.

Known from the file of placements; from the directory ids that Apache Kafka writes into the
metadata; and, where there is no such file yet, from the recovery points of each directory.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.directory import Directory
from penstock.broker.hosting import Refused
from penstock.broker.placements import Place, Placed, State
from penstock.controller.image import Partition as PartitionImage
from penstock.log.directory import ACCEPT_LOSS
from penstock.model import ZERO_ID, TopicPartition, id_to_text

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.losses")

NAMED_MAX = 20  # partitions that one message names
RESERVED_DIRECTORIES_BELOW = 100  # ids that are small numbers mean something else


class _Loss(NamedTuple):
    """Why a partition counts as lost, and where it was."""

    reason: str
    directory_id: bytes
    recovery_point: int = 0
    state: State = State.OFFLINE


def refuse_lost(
    broker: "Broker",
    recovery_points: Mapping[Directory, Mapping[TopicPartition, int]],
    start_offsets: Mapping[Directory, Mapping[TopicPartition, int]],
    departed: Mapping[str, Sequence[bytes]],
) -> None:
    """Sort the missing partitions into those that were never made and those that are lost.
    Recovery points and start offsets are those of the directories that could be looked at,
    `departed` says where those may be that were found to have moved."""
    hosting = broker.hosting
    directories = {each.directory_id: each for each in hosting.directories}
    for directory_id, path in hosting.placements.paths.items():
        named = hosting.directory_at(path)
        if named is not None and named.failed:
            directories[directory_id] = named  # it could not be asked for its id
    lost: dict[str, list[str]] = {}
    for topic, state in hosting.missing():
        partition = TopicPartition(topic.name, state.partition_id)
        place = (topic.topic_id, state.partition_id)
        placed = hosting.placements.before.get(place)
        moved_to = _failed_of(departed.get(str(partition), ()), directories)
        if moved_to is not None:
            # Its copy counts and could not be opened, whatever the file of placements says.
            loss: _Loss | None = _in_failed(moved_to, moved_to.directory_id, State.OFFLINE)
        elif placed is None or placed.state is State.SOUGHT:
            perhaps_in = _perhaps_in(broker, place, placed)
            loss = _unplaced(broker, state, partition, perhaps_in, directories, recovery_points)
        elif placed.directory_id in directories:
            loss = _placed(partition, placed, directories[placed.directory_id], recovery_points)
        else:
            path = hosting.placements.paths.get(placed.directory_id, "another directory")
            loss = _elsewhere(path, placed.directory_id)
        if loss is None:
            continue
        lost.setdefault(loss.reason, []).append(str(partition))
        what = f"{partition} stays offline: {loss.reason}"
        where = directories.get(loss.directory_id)
        # Kept for the day on which it is restored: what was deleted of it stays so.
        start = 0 if where is None else start_offsets.get(where, {}).get(partition, 0)
        refused = Refused(
            what, loss.directory_id, partition, loss.recovery_point, start, state=loss.state
        )
        hosting.refuse(topic, state.partition_id, refused)
    for reason, names in lost.items():
        _say(reason, names)


def _failed_of(
    directory_ids: Sequence[bytes], directories: Mapping[bytes, Directory]
) -> Directory | None:
    """Of those that a partition may have moved to, the one that was seen with it and failed."""
    found = (directories.get(each) for each in directory_ids)
    return next((each for each in found if each is not None and each.failed), None)


def _say(reason: str, names: list[str]) -> None:
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
    placed: Placed,
    directory: Directory,
    recovery_points: Mapping[Directory, Mapping[TopicPartition, int]],
) -> _Loss | None:
    """We know where it was, and that directory is still one of ours."""
    if directory.failed:
        # It may be found that it was never durable: then it is made anew, as it would be now.
        state = State.MADE if placed.state is State.MADE else State.OFFLINE
        return _in_failed(directory, placed.directory_id, state)
    if placed.state is State.MADE:
        log.warning(
            "%s was made in %s and is not there. Nothing of it was durable: it is made anew",
            partition,
            directory.disk.root,
        )
        return None
    return _vanished(directory, recovery_points[directory].get(partition, 0))


def _perhaps_in(broker: "Broker", place: Place, sought: Placed | None) -> Mapping[bytes, str]:
    """Directories that may hold a partition of which nobody knows whether it was ever made."""
    placements = broker.hosting.placements
    found = dict(placements.announced_in(place))
    if sought is not None and sought.directory_id != ZERO_ID:
        path = placements.paths.get(sought.directory_id, "another directory")
        found.setdefault(sought.directory_id, path)
    return found


def _unplaced(
    broker: "Broker",
    state: PartitionImage,
    partition: TopicPartition,
    perhaps_in: Mapping[bytes, str],
    directories: Mapping[bytes, Directory],
    recovery_points: Mapping[Directory, Mapping[TopicPartition, int]],
) -> _Loss | None:
    """We do not know of it. Made by another server, or a moment before a kill, it may be anywhere
    that cannot be looked at."""
    assigned = _assigned(broker.node_id, state)
    if assigned is not None and assigned not in directories:
        return _elsewhere("another directory", assigned)
    for directory_id, path in perhaps_in.items():
        if directory_id not in directories:
            return _elsewhere(path, directory_id, State.SOUGHT)
    for directory in directories.values():
        if directory.failed:
            return _in_failed(directory, broker.hosting.identity(directory), State.SOUGHT)
    if not broker.hosting.placements.known:
        for directory, points in recovery_points.items():
            if points.get(partition, 0) > 0:
                return _vanished(directory, points[partition])
    return None


def _assigned(node_id: int, state: PartitionImage) -> bytes | None:
    """The directory that the metadata says it is in, if it says so."""
    place = state.replicas.index(node_id)
    if place >= len(state.directories):
        return None
    directory_id = state.directories[place]
    reserved = int.from_bytes(directory_id, "big") < RESERVED_DIRECTORIES_BELOW
    return None if reserved else directory_id


def _elsewhere(path: str, directory_id: bytes, state: State = State.OFFLINE) -> _Loss:
    verb = "may be" if state is State.SOUGHT else "were"
    reason = (
        f"they {verb} in {path} (directory.id {id_to_text(directory_id)}), and no directory in "
        "log.dirs has that id now. If its disk is not mounted, stop the node, mount it and start "
        "again; if log.dirs no longer names it, name it again"
    )
    return _Loss(reason, directory_id, state=state)


def _in_failed(directory: Directory, directory_id: bytes, state: State) -> _Loss:
    reason = (
        f"log directory {directory.disk.root} failed ({directory.failed}), and they are or may be "
        "in it. Repair it and start again"
    )
    return _Loss(reason, directory_id, state=state)


def _vanished(directory: Directory, recovery_point: int) -> _Loss:
    reason = (
        f"their directories were in {directory.disk.root} and are gone. Restore them from a copy "
        "and start again"
    )
    return _Loss(reason, directory.directory_id, recovery_point)
