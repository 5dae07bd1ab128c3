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
  put away               decided                 the copy: its mark goes
  no mark                decided                 the copy, and the original is kept aside; unless
                                                 the file of placements names S: somebody gave the
                                                 copy up, and the original was used since
  no mark                none                    the one that is there; of two, the one that the
                                                 file of placements names, else none of them

Where nobody knows, the file of placements may name yet another directory, U: what was used last is
there. If it can be seen there, it counts; if not, U is what is asked for, and remembered.

An original is put away only after the file of placements names the directory of its copy, and the
copy could be opened: a start that is killed, and followed by one without T, would make it anew.
What cannot be put away for want of room, or as T fails meanwhile, waits (originals.py).

A copy that has not the partition's name yet (-future) never counts: the move begins anew.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.aside import name_aside
from penstock.broker.directory import Directory
from penstock.broker.doubles import Entries, Failed, Ours, Refuse, blaming, set_aside
from penstock.broker.originals import Original
from penstock.broker.placements import Place, State
from penstock.controller.image import Topic
from penstock.log.directory import (
    MOVED_FROM_FILE,
    MOVING_TO_FILE,
    Kind,
    PartitionDirectory,
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
from penstock.model import (
    ZERO_ID,
    TopicPartition,
    id_from_text,
    id_to_text,
)
from penstock.world import DiskFailed, DiskFull, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.moves")

Wishes = dict[tuple[TopicPartition, Directory], list[PartitionDirectory]]


class Settled(NamedTuple):
    """What a start has to know of moves beside what is left in `entries`."""

    wishes: Wishes  # which partitions were on their way, and where to
    starts: dict[tuple[Directory, str], int]  # of copies that count: where their logs start
    originals: list["Departed"]
    # Marks that nobody needs any more, when the originals are put away.
    finished: dict[tuple[Directory, str], list[Arrival]]


class Departed(NamedTuple):
    """What counts no more: an original whose copy counts, or whatever that was moved on to; or a
    copy that was only offered."""

    directory: Directory
    entry: PartitionDirectory
    departure: Departure  # which directory has what counts instead, and the token of that move


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


def settle_moves(broker: "Broker", entries: Entries, ours: Ours, refuse: Refuse) -> Settled:
    """Before the partitions are loaded: takes out of `entries` what counts no more, and refuses
    what nobody can decide. Waits for the disks."""
    while True:
        originals: list[Departed] = []
        try:
            settling = _Settling(broker, entries, ours, originals)
            break
        except Failed as failed:  # what was thought of the others may have rested on this one
            failed.directory.take_offline(failed.failure)
            del entries[failed.directory]
            for each in originals:
                if each.directory in entries:
                    entries[each.directory].append(each.entry)
    for found, reason, used_in in settling.refused:
        what = f"{found.entry.partition} stays offline: {reason}"
        log.error("%s", what)
        refuse(found.directory, found.entry, what, used_in)
    for place, topic, directory_id in settling.left:
        broker.hosting.originals.note(place, topic, directory_id)
    wishes: Wishes = {}
    for directory, listed in entries.items():
        for entry in listed:
            if entry.kind is Kind.FUTURE:
                wishes.setdefault((entry.partition, directory), []).append(entry)
    return Settled(wishes, settling.starts, settling.originals, settling.finished)


class _Settling:
    """One pass over everything that has a mark; Failed if a disk fails meanwhile."""

    def __init__(
        self, broker: "Broker", entries: Entries, ours: Ours, originals: list[Departed]
    ) -> None:
        self._broker = broker
        self._entries = entries
        self._seen = {id_to_text(each.directory_id): each for each in entries}
        self._ours = ours
        self.refused: list[tuple[_Found, str, bytes | None]] = []
        self.originals = originals
        self.left: list[tuple[Place, str, bytes]] = []  # where originals are that are not seen
        self.starts: dict[tuple[Directory, str], int] = {}
        self.finished: dict[tuple[Directory, str], list[Arrival]] = {}
        for places in self._marked().values():
            self._settle(places)

    def _marked(self) -> dict[str, list[_Found]]:
        """All directories of those partitions of which one has a mark."""
        found: dict[str, list[_Found]] = {}
        for directory, listed in self._entries.items():
            with blaming(directory):
                for entry in listed:
                    if entry.kind is Kind.LIVE:
                        departure = read_departure(directory.disk, entry.name)
                        arrivals = read_arrivals(directory.disk, entry.name)
                        each = _Found(directory, entry, departure, arrivals)
                        found.setdefault(entry.name, []).append(each)
        marked = {}
        for name, places in found.items():
            if any(each.departure or each.arrivals for each in places):
                marked[name] = [each for each in places if self._topic(each) is not None]
        return marked

    def _topic(self, found: _Found) -> Topic | None:
        with blaming(found.directory):
            return self._ours(found.directory, found.entry)

    def _place(self, found: _Found) -> Place:
        topic = self._topic(found)
        assert topic is not None, "it was chosen for that"
        return topic.topic_id, found.entry.partition.partition

    def _used_in(self, found: _Found) -> bytes | None:
        """Where the file of placements puts it."""
        placed = self._broker.hosting.placements.before.get(self._place(found))
        if placed is None or placed.directory_id == ZERO_ID or placed.state is State.SOUGHT:
            return None
        return placed.directory_id

    def _settle(self, places: list[_Found]) -> None:
        for original in [each for each in places if each.departure is not None]:
            copy = next((each for each in places if each.replaces(original)), None)
            if copy is not None:
                try:
                    places[places.index(copy)] = self._decide(copy, original)
                except (DiskFull, TooManyFiles) as failure:
                    reason = _hindered(copy, "that it counts", failure)
                    self.refused.append((copy, reason, self._used_in(copy)))
                    return
                self._depart(original, original.departure)
                places.remove(original)
            elif self._is_used_elsewhere(original, places):
                self._depart(original, original.departure)
                places.remove(original)
            else:
                self._settle_alone(original)
        undecided = [each for each in places if not all(way.decided for way in each.arrivals)]
        for copy in undecided:
            self._settle_offered(copy, [each for each in places if each is not copy])
        for copy in [each for each in places if each.arrivals and each not in undecided]:
            self._set_originals_aside(copy, places)
            self._note(copy)

    def _is_used_elsewhere(self, original: _Found, places: Sequence[_Found]) -> bool:
        """Whether it can be seen where it was used last, and that is not in doubt either."""
        used_in = self._used_in(original)
        return any(
            each.directory.directory_id == used_in
            and each.departure is None
            and all(way.decided for way in each.arrivals)
            for each in places
        )

    def _set_originals_aside(self, copy: _Found, places: list[_Found]) -> None:
        """Those without a mark."""
        sources = {way.source_id for way in copy.arrivals}
        for other in [each for each in places if each is not copy]:
            if other.directory_id in sources and other.departure is None and not other.arrivals:
                placed = self._broker.hosting.placements.before.get(self._place(copy))
                if placed is not None and placed.state in (State.MADE, State.DURABLE):
                    if placed.directory_id == other.directory.directory_id:
                        continue  # settle_doubles
                set_aside(self._broker, other.directory, other.entry, copy.directory)
                self._entries[other.directory].remove(other.entry)
                places.remove(other)

    def _decide(self, copy: _Found, original: _Found) -> _Found:
        """Also if it is said already: it may not be durable, and neither the copy's name."""
        left = original.departure
        assert left is not None, "it was chosen for that"
        arrivals = [
            way._replace(decided=True) if way.token == left.token else way for way in copy.arrivals
        ]
        disk = copy.directory.disk
        with blaming(copy.directory):
            try:
                write_arrivals(disk, copy.entry.name, arrivals)
            except DiskFull:
                if arrivals != copy.arrivals:
                    raise
                disk.sync_everything_now()  # that takes no room
        return copy._replace(arrivals=arrivals)

    def _depart(self, found: _Found, departure: Departure | None) -> None:
        """It is put away when what counts could be opened."""
        assert departure is not None, "it was chosen for that"
        self.originals.append(Departed(found.directory, found.entry, departure))
        self._entries[found.directory].remove(found.entry)

    def _settle_alone(self, original: _Found) -> None:
        """It has a mark, and no copy with its token can be seen."""
        assert original.departure is not None, "it was chosen for that"
        target_id, token = original.departure
        target = self._seen.get(target_id)
        used_in = self._used_in(original)
        if self._refuse_for(original, used_in, (original.directory_id, target_id)):
            return
        if target is None:
            reason = (
                f"it was moving from {original.directory.disk.root} to {self._path(target_id)},"
                " which cannot be read now and may hold newer records. Start the node with both"
            )
        elif any(
            each.name.endswith(f".{token}{Kind.FUTURE.value}") for each in self._futures(target)
        ):
            try:
                with blaming(original.directory):
                    clear_departure(original.directory.disk, original.entry.name)
                return
            except (DiskFull, TooManyFiles) as failure:
                reason = _hindered(original, "that it does not move any more", failure)
        else:
            reason = (
                f"it was moving from {original.directory.disk.root} to {target.disk.root}, and is"
                f" not there. Restore it there from a copy; or, if {original.path} is to count,"
                f" remove {MOVING_TO_FILE} in it; then start again"
            )
        self.refused.append((original, reason, used_in))

    def _refuse_for(self, found: _Found, used_in: bytes | None, ways: tuple[str, str]) -> bool:
        """If it was used last in a directory that is on neither end of the way whose traces were
        found: then they are old, and nobody should be told to go by them."""
        if used_in is None or id_to_text(used_in) in ways:
            return False
        directory = self._seen.get(id_to_text(used_in))
        if directory is None:
            where = self._path(id_to_text(used_in))
            reason = f"it is in {where}, which cannot be read now. Start the node with it"
        else:
            reason = (
                f"it was in {directory.disk.root}, and is not there. Restore it there from a copy"
                " and start again"
            )
        reason += f". What {found.path} holds is older"
        self.refused.append((found, reason, used_in))
        return True

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
        used_in = self._used_in(copy)
        is_seen = any(all(each.decided for each in other.arrivals) for other in others)
        ways = (way.source_id, copy.directory_id)
        if not is_seen and self._refuse_for(copy, used_in, ways):
            return
        if source is None:
            reason = (
                f"it was moving from {self._path(way.source_id)}, which cannot be read now and may"
                f" hold newer records, to {copy.directory.disk.root}. Start the node with both"
            )
        elif is_seen:
            self._depart(copy, Departure(way.source_id, way.token))
            return
        else:
            reason = (
                f"it was moving from {source.disk.root} to {copy.directory.disk.root}, and is no"
                f" more in the former. Restore it there from a copy; or, if {copy.path} is to"
                f" count, remove {MOVED_FROM_FILE} in it; then start again"
            )
        self.refused.append((copy, reason, used_in))

    def _note(self, copy: _Found) -> None:
        where = (copy.directory, copy.entry.name)
        self.starts[where] = max(way.start_offset for way in copy.arrivals)
        settled = [way for way in copy.arrivals if way.source_id in self._seen]
        if settled:
            self.finished[where] = settled
        for way in copy.arrivals:
            if way.source_id not in self._seen:
                source_id = id_from_text(way.source_id)
                self.left.append((self._place(copy), copy.entry.partition.topic, source_id))


def _hindered(found: _Found, what: str, failure: DiskFailed) -> str:
    """Why one partition stays offline: no reason to do without all that is in its directory."""
    return (
        f"{what} has to be noted in {found.path}, and cannot be: {failure}. Make room there and "
        "start again"
    )


def put_originals_away(broker: "Broker", originals: Sequence[Departed]) -> set[str]:
    """After the partitions are loaded, and only those whose copies could be. The tokens of moves
    whose originals stay. Waits for the disks."""
    hosting = broker.hosting
    if originals:
        hosting.placements.store_now()
    kept: set[str] = set()
    for directory, entry, departure in originals:
        name, index = entry.partition
        used = hosting.by_name.get(name, {}).get(index)
        retired = name_aside(entry.partition, broker.world.entropy)
        if used is not None and not used.directory.failed and not directory.failed:
            try:
                hosting.retire_now(directory, entry.name, retired)
                where = f"{directory.disk.root}/{entry.name}"
                log.info("%s is in %s: %s is removed", used, used.directory.disk.root, where)
                continue
            except (DiskFull, TooManyFiles) as failure:
                directory.heard(failure)
            except DiskFailed as failure:
                directory.take_offline(failure)
        kept.add(departure.token)
        if used is None or directory.failed:
            place = (broker.image.topics[name].topic_id, index)
            hosting.originals.note(place, name, directory.directory_id)
        else:
            hosting.originals.wait(Original(used, directory, retired, _nobody, is_tried=True))
    return kept


def _nobody() -> None:
    """The mark of the copy stays until the next start, which makes the same of it."""


def drop_marks(
    finished: Mapping[tuple[Directory, str], Sequence[Arrival]], kept: Collection[str]
) -> None:
    """After the checkpoints say where the logs start, but for moves whose originals are kept. What
    stays does no harm."""
    for (directory, name), arrivals in finished.items():
        if not directory.failed:
            needless = [each for each in arrivals if each.token not in kept]
            with suppress(DiskFailed):
                drop_arrivals(directory.disk, name, needless)


def begin_anew(broker: "Broker", wishes: Wishes) -> None:
    """After the partitions are loaded. Waits for the disks."""
    for (partition, directory), entries in wishes.items():
        if not directory.failed:
            try:
                _wish_again(broker, partition, directory, entries)
            except (DiskFull, TooManyFiles) as failure:
                directory.heard(failure)  # the next start looks at it again
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
            aside = name_aside(entry.partition, broker.world.entropy)
            broker.hosting.retire_now(directory, entry.name, aside)
    if not meant:
        return
    if partition is None or partition.directory.failed:
        log.warning("%s moves to %s when it is no longer offline", wanted, directory.disk.root)
    else:
        broker.moves.ask(partition, directory, meant)
