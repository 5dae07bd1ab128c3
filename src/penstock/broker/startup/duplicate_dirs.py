"""Partitions found in two directories without a marker of a move.

The directory that the file of placements names counts; the other one is kept under another name. If
the file names none of them, or a directory that is away, the partition stays offline.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.storage.placements import PlacementState
from penstock.controller.image import Topic
from penstock.log.directory import (
    LOG,
    DirectoryKind,
    PartitionDirectory,
    marked_name,
    read_metadata,
)
from penstock.model import CLUSTER_METADATA_TOPIC, ZERO_ID, id_to_text
from penstock.world import DiskFailed, DiskFull, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.startup.broker_view import StartupBroker

log = logging.getLogger("penstock.moves")

Entries = dict[LogDirectory, list[PartitionDirectory]]
# Returns the topic of a directory, if its partition belongs to this node.
TopicOf = Callable[[LogDirectory, PartitionDirectory], Topic | None]
# Keeps a partition offline. The last argument is the directory of its last use, if another one.
KeepOffline = Callable[[LogDirectory, PartitionDirectory, str, bytes | None], None]


class LogDirFailed(Exception):
    """A disk failed while directories were read."""

    def __init__(self, directory: LogDirectory, failure: DiskFailed) -> None:
        super().__init__(str(failure))
        self.directory = directory
        self.failure = failure


@contextmanager
def blaming(directory: LogDirectory) -> Iterator[None]:
    """Turn a failure into LogDirFailed, except for a full disk or too many open files."""
    try:
        yield
    except (DiskFull, TooManyFiles):
        raise
    except DiskFailed as failure:
        raise LogDirFailed(directory, failure) from failure


def resolve_duplicates(
    broker: "StartupBroker", entries: Entries, topic_of: TopicOf, keep_offline: KeepOffline
) -> None:
    """Choose one directory for each partition found in two. The one used last counts, and the other
    is kept; without that knowledge, the partition stays offline until an operator decides."""
    while True:
        try:
            for name, several in _places(entries).items():
                if len(several) > 1:
                    _resolve_duplicate(broker, entries, several, name, topic_of, keep_offline)
            return
        except LogDirFailed as failed:
            failed.directory.take_offline(failed.failure)
            del entries[failed.directory]


def _places(entries: Entries) -> dict[str, list[LogDirectory]]:
    places: dict[str, list[LogDirectory]] = {}
    for directory, listed in entries.items():
        for entry in listed:
            if entry.kind is DirectoryKind.LIVE and entry.partition.topic != CLUSTER_METADATA_TOPIC:
                places.setdefault(entry.name, []).append(directory)
    return places


def _resolve_duplicate(
    broker: "StartupBroker",
    entries: Entries,
    several: Sequence[LogDirectory],
    name: str,
    topic_of: TopicOf,
    keep_offline: KeepOffline,
) -> None:
    entry = next(each for each in entries[several[0]] if each.name == name)
    holders: list[LogDirectory] = []
    for directory in several:
        with blaming(directory):
            topic = topic_of(directory, entry)
        if topic is not None:
            holders.append(directory)
            place = (topic.topic_id, entry.partition.partition)
    if len(holders) < 2 or broker.replicas.is_kept_offline(*place):
        return
    placed = broker.replicas.placements.before.get(place)
    used = None
    if placed is None or placed.state is PlacementState.SOUGHT:
        # Power was lost before a record was durable: any directory without records will do.
        with_traces = [each for each in holders if _has_traces(each, name)]
        used = next(iter(with_traces or holders)) if len(with_traces) < 2 else None
    elif placed.state in (PlacementState.MADE, PlacementState.DURABLE):
        used = next((each for each in holders if each.directory_id == placed.directory_id), None)
    if used is not None:
        for other in [each for each in holders if each is not used]:
            keep_as_stray(broker, other, entry, used)
            entries[other].remove(entry)
        return
    where = " and ".join(f"{each.disk.root}/{name}" for each in holders)
    used_in = None if placed is None or placed.directory_id == ZERO_ID else placed.directory_id
    if used_in is None or used_in in {each.directory_id for each in entries}:
        what = (
            f"{name} stays offline: it is in {where}. Find out which of them holds the records,"
            " move the other out of log.dirs, and start again"
        )
    else:
        path = broker.replicas.placements.paths.get(used_in, "a directory")
        what = (
            f"{name} stays offline: it was used last in {path} (directory.id"
            f" {id_to_text(used_in)}), which cannot be read now. Start the node with it. It is in"
            f" {where} too"
        )
    log.error("%s", what)
    keep_offline(holders[0], entry, what, used_in)


def _has_traces(directory: LogDirectory, name: str) -> bool:
    """Return whether a directory holds records, or a durable partition.metadata."""
    disk = directory.disk
    with blaming(directory):
        if read_metadata(disk, name) is not None:
            return True
        logs = [f"{name}/{each}" for each in disk.list(name) if each.endswith(LOG)]
        return any(disk.size(each) > 0 for each in logs)


def keep_as_stray(
    broker: "StartupBroker", directory: LogDirectory, entry: PartitionDirectory, used: LogDirectory
) -> None:
    aside = marked_name(entry.partition, DirectoryKind.STRAY, broker.world.entropy.uuid().hex())
    try:
        with blaming(directory):
            directory.disk.rename_now(entry.name, aside)
    except (DiskFull, TooManyFiles) as failure:
        directory.note_failure(failure)
        aside = entry.name  # the next start comes to the same end
    log.warning(
        "%s is used in %s; %s/%s is kept as %s and not served",
        entry.name,
        used.disk.root,
        directory.disk.root,
        entry.name,
        aside,
    )
