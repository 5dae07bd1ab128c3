"""A partition in two directories, and nothing tells of a move: which of them counts.

The one that this node has used last, as the file of placements says; the other is kept, under
another name. If that is not known, or is a directory that cannot be seen, nobody's guess is good
enough: the partition stays offline.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.broker.directory import Directory
from penstock.broker.placements import State
from penstock.controller.image import Topic
from penstock.log.directory import LOG, Kind, PartitionDirectory, marked_name, read_metadata
from penstock.model import CLUSTER_METADATA_TOPIC, ZERO_ID, id_to_text
from penstock.world import DiskFailed, DiskFull, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.moves")

Entries = dict[Directory, list[PartitionDirectory]]
# The topic of a directory that belongs to a partition of this node; None for any other.
Ours = Callable[[Directory, PartitionDirectory], Topic | None]
# The last is the directory in which it was used last, where that is another one.
Refuse = Callable[[Directory, PartitionDirectory, str, bytes | None], None]


class Failed(Exception):
    """A disk fails while directories are looked through."""

    def __init__(self, directory: Directory, failure: DiskFailed) -> None:
        super().__init__(str(failure))
        self.directory = directory
        self.failure = failure


@contextmanager
def blaming(directory: Directory) -> Iterator[None]:
    """For want of room, or of files, no directory is to blame."""
    try:
        yield
    except (DiskFull, TooManyFiles):
        raise
    except DiskFailed as failure:
        raise Failed(directory, failure) from failure


def settle_doubles(broker: "Broker", entries: Entries, ours: Ours, refuse: Refuse) -> None:
    """A partition in two directories, and nothing tells of a move. The one that this node has used
    last counts, and the other is kept; if that is not known, only a person can say."""
    while True:
        try:
            for name, several in _places(entries).items():
                if len(several) > 1:
                    _settle_double(broker, entries, several, name, ours, refuse)
            return
        except Failed as failed:
            failed.directory.take_offline(failed.failure)
            del entries[failed.directory]


def _places(entries: Entries) -> dict[str, list[Directory]]:
    places: dict[str, list[Directory]] = {}
    for directory, listed in entries.items():
        for entry in listed:
            if entry.kind is Kind.LIVE and entry.partition.topic != CLUSTER_METADATA_TOPIC:
                places.setdefault(entry.name, []).append(directory)
    return places


def _settle_double(
    broker: "Broker",
    entries: Entries,
    several: Sequence[Directory],
    name: str,
    ours: Ours,
    refuse: Refuse,
) -> None:
    entry = next(each for each in entries[several[0]] if each.name == name)
    holders: list[Directory] = []
    for directory in several:
        with blaming(directory):
            topic = ours(directory, entry)
        if topic is not None:
            holders.append(directory)
            place = (topic.topic_id, entry.partition.partition)
    if len(holders) < 2 or broker.hosting.is_refused(*place):
        return
    placed = broker.hosting.placements.before.get(place)
    used = None
    if placed is None or placed.state is State.SOUGHT:
        # Power was lost before anything of them was durable: any of those will do.
        with_traces = [each for each in holders if _has_traces(each, name)]
        used = next(iter(with_traces or holders)) if len(with_traces) < 2 else None
    elif placed.state in (State.MADE, State.DURABLE):
        used = next((each for each in holders if each.directory_id == placed.directory_id), None)
    if used is not None:
        for other in [each for each in holders if each is not used]:
            set_aside(broker, other, entry, used)
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
        path = broker.hosting.placements.paths.get(used_in, "a directory")
        what = (
            f"{name} stays offline: it was used last in {path} (directory.id"
            f" {id_to_text(used_in)}), which cannot be read now. Start the node with it. It is in"
            f" {where} too"
        )
    log.error("%s", what)
    refuse(holders[0], entry, what, used_in)


def _has_traces(directory: Directory, name: str) -> bool:
    """Whether anything in it was written durably, or by anybody but who made it."""
    disk = directory.disk
    with blaming(directory):
        if read_metadata(disk, name) is not None:
            return True
        logs = [f"{name}/{each}" for each in disk.list(name) if each.endswith(LOG)]
        return any(disk.size(each) > 0 for each in logs)


def set_aside(
    broker: "Broker", directory: Directory, entry: PartitionDirectory, used: Directory
) -> None:
    aside = marked_name(entry.partition, Kind.STRAY, broker.world.entropy.uuid().hex())
    try:
        with blaming(directory):
            directory.disk.rename_now(entry.name, aside)
    except (DiskFull, TooManyFiles) as failure:
        directory.heard(failure)
        aside = entry.name  # the next start comes to the same end
    log.warning(
        "%s is used in %s; %s/%s is kept as %s and not served",
        entry.name,
        used.disk.root,
        directory.disk.root,
        entry.name,
        aside,
    )
