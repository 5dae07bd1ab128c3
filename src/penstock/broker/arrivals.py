"""Moves between directories that a stop has interrupted: what a start makes of their traces.

The original, in directory S, may have a mark "moving to T, token"; the copy, in T, a mark "moved
from S, token", offered or decided (log/moving_marks.py). What counts, of what can be seen:

  S: original            T: copy                 what counts
  marked                 same token              the copy: it is decided, the original put away
  marked                 -future of this token   the original: its mark goes
  marked                 neither                 nobody knows: offline
  marked                 T cannot be read        nobody knows: offline
  no such mark           offered                 the original: the copy is put away
  has moved on to U      offered                 the one in U, if it can be seen: the same
  not there              offered                 nobody knows: offline
  S cannot be read       offered                 nobody knows: offline
  S cannot be read       decided                 the copy; its mark stays until S was looked at
  put away, or no mark   decided                 the copy: its mark goes
  no mark                none                    the one that is there; of two, the one that the
                                                 file of placements names, else none of them

A copy that has not the partition's name yet (-future) never counts: the move begins anew.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.directory import Directory
from penstock.broker.placements import State
from penstock.controller.image import Topic
from penstock.log.directory import (
    MOVED_FROM_FILE,
    MOVING_TO_FILE,
    Kind,
    PartitionDirectory,
    marked_name,
    read_metadata,
)
from penstock.log.moving_marks import (
    Arrival,
    Departure,
    clear_departure,
    drop_arrivals,
    read_arrivals,
    read_departure,
    write_arrivals,
)
from penstock.model import CLUSTER_METADATA_TOPIC, TopicPartition, id_to_text
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.moves")

Entries = dict[Directory, list[PartitionDirectory]]
Wishes = dict[tuple[TopicPartition, Directory], list[PartitionDirectory]]
# The topic of a directory that belongs to a partition of this node; None for any other.
Ours = Callable[[Directory, PartitionDirectory], Topic | None]
Refuse = Callable[[Directory, PartitionDirectory, str], None]


class Settled(NamedTuple):
    """What a start has to know of moves beside what is left in `entries`."""

    wishes: Wishes  # which partitions were on their way, and where to
    starts: dict[tuple[Directory, str], int]  # of copies that count: where their logs start
    finished: dict[tuple[Directory, str], list[Arrival]]  # marks that nobody needs any more


class _Found(NamedTuple):
    """One directory of a partition, with the marks in it."""

    directory: Directory
    entry: PartitionDirectory
    departure: Departure | None
    arrivals: list[Arrival]

    @property
    def directory_id(self) -> str:
        return id_to_text(self.directory.directory_id)

    @property
    def path(self) -> str:
        return f"{self.directory.disk.root}/{self.entry.name}"

    def replaces(self, original: "_Found") -> bool:
        left = original.departure
        return left is not None and any(
            each.source_id == original.directory_id and each.token == left.token
            for each in self.arrivals
        )


class _Failed(Exception):
    def __init__(self, directory: Directory, failure: DiskFailed) -> None:
        super().__init__(str(failure))
        self.directory = directory
        self.failure = failure


@contextmanager
def _blaming(directory: Directory) -> Iterator[None]:
    try:
        yield
    except DiskFailed as failure:
        raise _Failed(directory, failure) from failure


def settle_moves(broker: "Broker", entries: Entries, ours: Ours, refuse: Refuse) -> Settled:
    """Before the partitions are loaded: takes out of `entries` what counts no more, and refuses
    what nobody can decide. Waits for the disks."""
    while True:
        try:
            settling = _Settling(broker, entries, ours)
            break
        except _Failed as failed:  # what was thought of the others may have rested on this one
            failed.directory.take_offline(failed.failure)
            del entries[failed.directory]
    for found, reason in settling.refused:
        log.error("%s stays offline: %s", found.entry.partition, reason)
        refuse(found.directory, found.entry, f"{found.entry.partition} stays offline: {reason}")
    wishes: Wishes = {}
    for directory, listed in entries.items():
        for entry in listed:
            if entry.kind is Kind.FUTURE:
                wishes.setdefault((entry.partition, directory), []).append(entry)
    return Settled(wishes, settling.starts, settling.finished)


class _Settling:
    """One pass over everything that has a mark; _Failed if a disk fails meanwhile."""

    def __init__(self, broker: "Broker", entries: Entries, ours: Ours) -> None:
        self._broker = broker
        self._entries = entries
        self._seen = {id_to_text(each.directory_id): each for each in entries}
        self.refused: list[tuple[_Found, str]] = []
        self.starts: dict[tuple[Directory, str], int] = {}
        self.finished: dict[tuple[Directory, str], list[Arrival]] = {}
        for places in self._marked(ours).values():
            self._settle(places)

    def _marked(self, ours: Ours) -> dict[str, list[_Found]]:
        """All directories of those partitions of which one has a mark."""
        found: dict[str, list[_Found]] = {}
        for directory, listed in self._entries.items():
            with _blaming(directory):
                for entry in listed:
                    if entry.kind is Kind.LIVE:
                        departure = read_departure(directory.disk, entry.name)
                        arrivals = read_arrivals(directory.disk, entry.name)
                        each = _Found(directory, entry, departure, arrivals)
                        found.setdefault(entry.name, []).append(each)
        marked = {}
        for name, places in found.items():
            if any(each.departure or each.arrivals for each in places):
                marked[name] = [each for each in places if self._is_ours(each, ours)]
        return marked

    def _is_ours(self, found: _Found, ours: Ours) -> bool:
        with _blaming(found.directory):
            return ours(found.directory, found.entry) is not None

    def _settle(self, places: list[_Found]) -> None:
        for original in [each for each in places if each.departure is not None]:
            copy = next((each for each in places if each.replaces(original)), None)
            if copy is not None:
                places[places.index(copy)] = self._decide(copy, original)
                self._put_away(original)
                places.remove(original)
            else:
                self._settle_alone(original)
        undecided = [each for each in places if not all(way.decided for way in each.arrivals)]
        for copy in undecided:
            self._settle_offered(copy, [each for each in places if each is not copy])
        for copy in [each for each in places if each.arrivals and each not in undecided]:
            self._note(copy)

    def _decide(self, copy: _Found, original: _Found) -> _Found:
        """Also if it is said already: it may not be durable, and neither the copy's name."""
        left = original.departure
        assert left is not None, "it was chosen for that"
        arrivals = [
            way._replace(decided=True) if way.token == left.token else way for way in copy.arrivals
        ]
        with _blaming(copy.directory):
            write_arrivals(copy.directory.disk, copy.entry.name, arrivals)
        return copy._replace(arrivals=arrivals)

    def _put_away(self, found: _Found) -> None:
        log.info("%s has moved: %s is removed", found.entry.partition, found.path)
        with _blaming(found.directory):
            self._broker.hosting.retire_now(found.directory, found.entry)
        self._entries[found.directory].remove(found.entry)

    def _settle_alone(self, original: _Found) -> None:
        """It has a mark, and no copy with its token can be seen."""
        assert original.departure is not None, "it was chosen for that"
        target_id, token = original.departure
        target = self._seen.get(target_id)
        if target is None:
            reason = (
                f"it was moving from {original.directory.disk.root} to {self._path(target_id)},"
                " which cannot be read now and may hold newer records. Start the node with both"
            )
        elif any(
            each.name.endswith(f".{token}{Kind.FUTURE.value}") for each in self._futures(target)
        ):
            with _blaming(original.directory):
                clear_departure(original.directory.disk, original.entry.name)
            return
        else:
            reason = (
                f"it was moving from {original.directory.disk.root} to {target.disk.root}, and is"
                f" not there. Restore it there from a copy; or, if {original.path} is to count,"
                f" remove {MOVING_TO_FILE} in it; then start again"
            )
        self.refused.append((original, reason))

    def _path(self, directory_id: str) -> str:
        """Of a directory that cannot be read."""
        paths = self._broker.hosting.placements.paths
        known = (path for each, path in paths.items() if id_to_text(each) == directory_id)
        return f"{next(known, 'a directory')} (directory.id {directory_id})"

    def _futures(self, directory: Directory) -> Iterator[PartitionDirectory]:
        return (each for each in self._entries[directory] if each.kind is Kind.FUTURE)

    def _settle_offered(self, copy: _Found, others: Sequence[_Found]) -> None:
        """It would have replaced an original that is not marked for it, or not to be seen."""
        way = next(each for each in copy.arrivals if not each.decided)
        source = self._seen.get(way.source_id)
        if source is None:
            reason = (
                f"it was moving from {self._path(way.source_id)}, which cannot be read now and may"
                f" hold newer records, to {copy.directory.disk.root}. Start the node with both"
            )
        elif any(all(each.decided for each in other.arrivals) for other in others):
            self._put_away(copy)
            return
        else:
            reason = (
                f"it was moving from {source.disk.root} to {copy.directory.disk.root}, and is no"
                f" more in the former. Restore it there from a copy; or, if {copy.path} is to"
                f" count, remove {MOVED_FROM_FILE} in it; then start again"
            )
        self.refused.append((copy, reason))

    def _note(self, copy: _Found) -> None:
        where = (copy.directory, copy.entry.name)
        self.starts[where] = max(way.start_offset for way in copy.arrivals)
        settled = [way for way in copy.arrivals if way.source_id in self._seen]
        if settled:
            self.finished[where] = settled


def drop_marks(finished: dict[tuple[Directory, str], list[Arrival]]) -> None:
    """After the checkpoints say where the logs start. What stays does no harm."""
    for (directory, name), arrivals in finished.items():
        if not directory.failed:
            with suppress(DiskFailed):
                drop_arrivals(directory.disk, name, arrivals)


def settle_doubles(broker: "Broker", entries: Entries, ours: Ours, refuse: Refuse) -> None:
    """A partition in two directories, and nothing tells of a move. The one that this node has used
    last counts, and the other is kept; if that is not known, only a person can say."""
    while True:
        try:
            for name, several in _places(entries).items():
                if len(several) > 1:
                    _settle_double(broker, entries, several, name, ours, refuse)
            return
        except _Failed as failed:
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
        with _blaming(directory):
            topic = ours(directory, entry)
        if topic is not None:
            holders.append(directory)
            place = (topic.topic_id, entry.partition.partition)
    if len(holders) < 2 or broker.hosting.is_refused(*place):
        return
    placed = broker.hosting.placements.before.get(place)
    if placed is not None and placed.state is not State.OFFLINE:
        used = next((each for each in holders if each.directory_id == placed.directory_id), None)
        if used is not None:
            for other in [each for each in holders if each is not used]:
                _set_aside(broker, other, entry, used)
                entries[other].remove(entry)
            return
    where = " and ".join(f"{each.disk.root}/{name}" for each in holders)
    what = (
        f"{name} stays offline: it is in {where}. Find out which of them holds the records, move"
        " the other out of log.dirs, and start again"
    )
    log.error("%s", what)
    refuse(holders[0], entry, what)


def _set_aside(
    broker: "Broker", directory: Directory, entry: PartitionDirectory, used: Directory
) -> None:
    aside = marked_name(entry.partition, Kind.STRAY, broker.world.entropy.uuid().hex())
    with _blaming(directory):
        directory.disk.rename_now(entry.name, aside)
    log.warning(
        "%s is in %s, where this node has used it; %s/%s is kept as %s and not served",
        entry.name,
        used.disk.root,
        directory.disk.root,
        entry.name,
        aside,
    )


def begin_anew(broker: "Broker", wishes: Wishes) -> None:
    """After the partitions are loaded. Waits for the disks."""
    for (partition, directory), entries in wishes.items():
        if not directory.failed:
            try:
                _wish_again(broker, partition, directory, entries)
            except DiskFailed as failure:
                directory.take_offline(failure)


def _wish_again(
    broker: "Broker",
    wanted: TopicPartition,
    directory: Directory,
    entries: Sequence[PartitionDirectory],
) -> None:
    topic = broker.image.topics.get(wanted.topic)
    partition = broker.hosting.by_name.get(wanted.topic, {}).get(wanted.partition)
    meant: list[str] = []
    for entry in entries:
        is_known = topic is not None and wanted.partition in topic.partitions
        of_it = (None, topic.topic_id if topic else None)  # another topic may have had the name
        is_there = partition is not None and partition.directory is directory
        if is_known and not is_there and read_metadata(directory.disk, entry.name) in of_it:
            meant.append(entry.name)
        else:
            broker.hosting.retire_now(directory, entry)
    if not meant:
        return
    if partition is None or partition.directory.failed:
        log.warning("%s moves to %s when it is no longer offline", wanted, directory.disk.root)
    else:
        broker.moves.ask(partition, directory, meant)
