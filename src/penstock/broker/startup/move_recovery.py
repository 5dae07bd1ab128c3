"""Moves between directories that a stop interrupted, resolved by their markers.

The original, in directory S, may have a mark "moving to T, token"; the copy, in T, a mark "moved
from S, token", offered or decided (log/future_log_markers.py). "Unknown" means offline:

  S: original            T: copy                 what counts
  marked                 same token              the copy: decide it, retire the original
  marked                 -future of this token   the original: its mark goes
  marked                 neither                 unknown
  marked                 T cannot be read        unknown
  no such mark           offered                 the original: the copy is put away
  has moved on to U      offered                 the one in U, if it can be seen: the same
  not there              offered                 unknown
  S cannot be read       offered                 unknown
  S cannot be read       decided                 the copy; its mark stays until S was looked at
  put away               decided                 the copy: its mark goes
  no mark                decided                 the copy, and the original is kept aside; unless
                                                 the file of placements names S: the copy was given
                                                 up, and the original was used since
  no mark                none                    the one that is there; of two, the one that the
                                                 file of placements names, else none of them

Where the result is unknown, the file of placements may name another directory, U, of the last use.
If the partition is in U, that one counts; if U is away, the log asks for U.

An original is put away only after the file of placements names the directory of its copy, and the
copy could be opened: a start that is killed, and followed by one without T, would create the
partition again. A full disk, or a failure of T, delays that (move_sources.py).

A copy without the partition's name yet (-future) never counts: the move starts again.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.startup.duplicate_dirs import (
    Entries,
    KeepOffline,
    LogDirFailed,
    TopicOf,
    blaming,
    keep_as_stray,
)
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.storage.move_sources import MoveSource
from penstock.broker.storage.placements import PlacementState, TopicIdPartition
from penstock.broker.storage.rename_deleted import deleted_name
from penstock.controller.image import Topic
from penstock.log.directory import (
    MOVED_FROM_FILE,
    MOVING_TO_FILE,
    DirectoryKind,
    PartitionDirectory,
    read_metadata,
)
from penstock.log.future_log_markers import (
    FutureMark,
    SourceMark,
    clear_source_mark,
    drop_future_marks,
    read_future_marks,
    read_source_mark,
    write_future_marks,
)
from penstock.model import (
    ZERO_ID,
    TopicPartition,
    id_from_text,
    id_to_text,
)
from penstock.world import DiskFailed, DiskFull, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.startup.broker_view import StartupBroker

log = logging.getLogger("penstock.moves")

RequestedMoves = dict[tuple[TopicPartition, LogDirectory], list[PartitionDirectory]]


class ResolvedMoves(NamedTuple):
    """Moves that a start has resolved; `entries` has the directories that count."""

    wishes: RequestedMoves  # which partitions were on their way, and where to
    starts: dict[tuple[LogDirectory, str], int]  # of copies that count: where their logs start
    originals: list["StaleCopy"]
    # Markers that are not needed after the originals are retired.
    finished: dict[tuple[LogDirectory, str], list[FutureMark]]


class StaleCopy(NamedTuple):
    """A directory that does not count: an original whose copy counts, or a copy only offered."""

    directory: LogDirectory
    entry: PartitionDirectory
    departure: SourceMark  # which directory has what counts instead, and the token of that move


class _MoveTrace(NamedTuple):
    """One directory of a partition, with the marks in it."""

    directory: LogDirectory
    entry: PartitionDirectory
    departure: SourceMark | None
    arrivals: list[FutureMark]

    @property
    def directory_id(self) -> str:
        return id_to_text(self.directory.directory_id)

    @property
    def path(self) -> str:
        return f"{self.directory.disk.root}/{self.entry.name}"

    def replaces(self, original: "_MoveTrace") -> bool:
        left = original.departure
        return left is not None and any(
            each.source_id == original.directory_id and each.token == left.token
            for each in self.arrivals
        )


def resolve_moves(
    broker: "StartupBroker", entries: Entries, topic_of: TopicOf, keep_offline: KeepOffline
) -> ResolvedMoves:
    """Resolve moves before the partitions are loaded: remove stale directories from `entries`, and
    keep undecidable partitions offline. Waits for the disks."""
    while True:
        originals: list[StaleCopy] = []
        try:
            settling = _MoveResolver(broker, entries, topic_of, originals)
            break
        except LogDirFailed as failed:  # decisions on others may rest on this directory
            failed.directory.take_offline(failed.failure)
            del entries[failed.directory]
            for each in originals:
                if each.directory in entries:
                    entries[each.directory].append(each.entry)
    for found, reason, used_in in settling.offline:
        what = f"{found.entry.partition} stays offline: {reason}"
        log.error("%s", what)
        keep_offline(found.directory, found.entry, what, used_in)
    for place, topic, directory_id in settling.left:
        broker.replicas.move_sources.note(place, topic, directory_id)
    wishes: RequestedMoves = {}
    for directory, listed in entries.items():
        for entry in listed:
            if entry.kind is DirectoryKind.FUTURE:
                wishes.setdefault((entry.partition, directory), []).append(entry)
    return ResolvedMoves(wishes, settling.starts, settling.move_sources, settling.finished)


class _MoveResolver:
    """One pass over all markers; LogDirFailed if a disk fails meanwhile."""

    def __init__(
        self,
        broker: "StartupBroker",
        entries: Entries,
        topic_of: TopicOf,
        originals: list[StaleCopy],
    ) -> None:
        self._broker = broker
        self._entries = entries
        self._seen = {id_to_text(each.directory_id): each for each in entries}
        self._topic_of = topic_of
        self.offline: list[tuple[_MoveTrace, str, bytes | None]] = []
        self.move_sources = originals
        self.left: list[
            tuple[TopicIdPartition, str, bytes]
        ] = []  # where originals are that are not seen
        self.starts: dict[tuple[LogDirectory, str], int] = {}
        self.finished: dict[tuple[LogDirectory, str], list[FutureMark]] = {}
        for places in self._marked().values():
            self._settle(places)

    def _marked(self) -> dict[str, list[_MoveTrace]]:
        """Return the directories of all partitions with a marker."""
        found: dict[str, list[_MoveTrace]] = {}
        for directory, listed in self._entries.items():
            with blaming(directory):
                for entry in listed:
                    if entry.kind is DirectoryKind.LIVE:
                        departure = read_source_mark(directory.disk, entry.name)
                        arrivals = read_future_marks(directory.disk, entry.name)
                        each = _MoveTrace(directory, entry, departure, arrivals)
                        found.setdefault(entry.name, []).append(each)
        marked = {}
        for name, places in found.items():
            if any(each.departure or each.arrivals for each in places):
                marked[name] = [each for each in places if self._topic(each) is not None]
        return marked

    def _topic(self, found: _MoveTrace) -> Topic | None:
        with blaming(found.directory):
            return self._topic_of(found.directory, found.entry)

    def _place(self, found: _MoveTrace) -> TopicIdPartition:
        topic = self._topic(found)
        assert topic is not None, "it was chosen for that"
        return topic.topic_id, found.entry.partition.partition

    def _used_in(self, found: _MoveTrace) -> bytes | None:
        """Return the directory that the file of placements names."""
        placed = self._broker.replicas.placements.before.get(self._place(found))
        if (
            placed is None
            or placed.directory_id == ZERO_ID
            or placed.state is PlacementState.SOUGHT
        ):
            return None
        return placed.directory_id

    def _settle(self, places: list[_MoveTrace]) -> None:
        for original in [each for each in places if each.departure is not None]:
            copy = next((each for each in places if each.replaces(original)), None)
            if copy is not None:
                try:
                    places[places.index(copy)] = self._decide(copy, original)
                except (DiskFull, TooManyFiles) as failure:
                    reason = _hindered(copy, "that it counts", failure)
                    self.offline.append((copy, reason, self._used_in(copy)))
                    return
                self._depart(original, original.departure)
                places.remove(original)
            elif self._is_used_elsewhere(original, places):
                self._depart(original, original.departure)
                places.remove(original)
            else:
                self._settle_alone(original)
        undecided = [
            each for each in places if not all(arrival.decided for arrival in each.arrivals)
        ]
        for copy in undecided:
            self._settle_offered(copy, [each for each in places if each is not copy])
        for copy in [each for each in places if each.arrivals and each not in undecided]:
            self._set_originals_aside(copy, places)
            self._note(copy)

    def _is_used_elsewhere(self, original: _MoveTrace, places: Sequence[_MoveTrace]) -> bool:
        """Return whether the directory of the last use is found, and counts without doubt."""
        used_in = self._used_in(original)
        return any(
            each.directory.directory_id == used_in
            and each.departure is None
            and all(arrival.decided for arrival in each.arrivals)
            for each in places
        )

    def _set_originals_aside(self, copy: _MoveTrace, places: list[_MoveTrace]) -> None:
        """Keep originals without a marker as stray directories."""
        sources = {arrival.source_id for arrival in copy.arrivals}
        for other in [each for each in places if each is not copy]:
            if other.directory_id in sources and other.departure is None and not other.arrivals:
                placed = self._broker.replicas.placements.before.get(self._place(copy))
                if placed is not None and placed.state in (
                    PlacementState.MADE,
                    PlacementState.DURABLE,
                ):
                    if placed.directory_id == other.directory.directory_id:
                        continue  # resolve_duplicates
                keep_as_stray(self._broker, other.directory, other.entry, copy.directory)
                self._entries[other.directory].remove(other.entry)
                places.remove(other)

    def _decide(self, copy: _MoveTrace, original: _MoveTrace) -> _MoveTrace:
        """Write durably that the copy counts, also if the marker says so already."""
        left = original.departure
        assert left is not None, "it was chosen for that"
        arrivals = [
            arrival._replace(decided=True) if arrival.token == left.token else arrival
            for arrival in copy.arrivals
        ]
        disk = copy.directory.disk
        with blaming(copy.directory):
            try:
                write_future_marks(disk, copy.entry.name, arrivals)
            except DiskFull:
                if arrivals != copy.arrivals:
                    raise
                disk.sync_everything_now()  # that takes no room
        return copy._replace(arrivals=arrivals)

    def _depart(self, found: _MoveTrace, departure: SourceMark | None) -> None:
        """Remove a stale directory from the entries, to be retired after the other one is open."""
        assert departure is not None, "it was chosen for that"
        self.move_sources.append(StaleCopy(found.directory, found.entry, departure))
        self._entries[found.directory].remove(found.entry)

    def _settle_alone(self, original: _MoveTrace) -> None:
        """Resolve an original whose copy is not found."""
        assert original.departure is not None, "it was chosen for that"
        target_id, token = original.departure
        target = self._seen.get(target_id)
        used_in = self._used_in(original)
        if self._keep_offline_for(original, used_in, (original.directory_id, target_id)):
            return
        if target is None:
            reason = (
                f"it was moving from {original.directory.disk.root} to {self._path(target_id)},"
                " which cannot be read now and may hold newer records. Start the node with both"
            )
        elif any(
            each.name.endswith(f".{token}{DirectoryKind.FUTURE.value}")
            for each in self._futures(target)
        ):
            try:
                with blaming(original.directory):
                    clear_source_mark(original.directory.disk, original.entry.name)
                return
            except (DiskFull, TooManyFiles) as failure:
                reason = _hindered(original, "that it does not move any more", failure)
        else:
            reason = (
                f"it was moving from {original.directory.disk.root} to {target.disk.root}, and is"
                f" not there. Restore it there from a copy; or, if {original.path} is to count,"
                f" remove {MOVING_TO_FILE} in it; then start again"
            )
        self.offline.append((original, reason, used_in))

    def _keep_offline_for(
        self, found: _MoveTrace, used_in: bytes | None, ends: tuple[str, str]
    ) -> bool:
        """Keep a partition offline if its last use was in a third directory: the markers of this
        move are old. Return whether that is so."""
        if used_in is None or id_to_text(used_in) in ends:
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
        self.offline.append((found, reason, used_in))
        return True

    def _path(self, directory_id: str) -> str:
        """Return the path and the id of a directory that cannot be read."""
        paths = self._broker.replicas.placements.paths
        known = (path for each, path in paths.items() if id_to_text(each) == directory_id)
        return f"{next(known, 'a directory')} (directory.id {directory_id})"

    def _futures(self, directory: LogDirectory) -> Iterator[PartitionDirectory]:
        return (each for each in self._entries[directory] if each.kind is DirectoryKind.FUTURE)

    def _settle_offered(self, copy: _MoveTrace, others: Sequence[_MoveTrace]) -> None:
        """Resolve an offered copy whose original has no marker, or is not found."""
        arrival = next(each for each in copy.arrivals if not each.decided)
        source = self._seen.get(arrival.source_id)
        used_in = self._used_in(copy)
        is_seen = any(all(each.decided for each in other.arrivals) for other in others)
        ends = (arrival.source_id, copy.directory_id)
        if not is_seen and self._keep_offline_for(copy, used_in, ends):
            return
        if source is None:
            reason = (
                f"it was moving from {self._path(arrival.source_id)}, which cannot be read now and"
                f" may hold newer records, to {copy.directory.disk.root}. Start the node with both"
            )
        elif is_seen:
            self._depart(copy, SourceMark(arrival.source_id, arrival.token))
            return
        else:
            reason = (
                f"it was moving from {source.disk.root} to {copy.directory.disk.root}, and is no"
                f" more in the former. Restore it there from a copy; or, if {copy.path} is to"
                f" count, remove {MOVED_FROM_FILE} in it; then start again"
            )
        self.offline.append((copy, reason, used_in))

    def _note(self, copy: _MoveTrace) -> None:
        where = (copy.directory, copy.entry.name)
        self.starts[where] = max(arrival.start_offset for arrival in copy.arrivals)
        settled = [arrival for arrival in copy.arrivals if arrival.source_id in self._seen]
        if settled:
            self.finished[where] = settled
        for arrival in copy.arrivals:
            if arrival.source_id not in self._seen:
                source_id = id_from_text(arrival.source_id)
                self.left.append((self._place(copy), copy.entry.partition.topic, source_id))


def _hindered(found: _MoveTrace, what: str, failure: DiskFailed) -> str:
    """Return the reason for one offline partition; its directory stays in use."""
    return (
        f"{what} has to be noted in {found.path}, and cannot be: {failure}. Make room there and "
        "start again"
    )


def retire_sources(broker: "StartupBroker", originals: Sequence[StaleCopy]) -> set[str]:
    """Retire originals whose copies are open. Return the tokens of moves whose originals stay.
    Waits for the disks."""
    replicas = broker.replicas
    if originals:
        replicas.placements.store_now()
    kept: set[str] = set()
    for directory, entry, departure in originals:
        name, index = entry.partition
        used = replicas.by_name.get(name, {}).get(index)
        retired = deleted_name(entry.partition, broker.world.entropy)
        if used is not None and not used.directory.failed and not directory.failed:
            try:
                replicas.retire_now(directory, entry.name, retired)
                where = f"{directory.disk.root}/{entry.name}"
                log.info("%s is in %s: %s is removed", used, used.directory.disk.root, where)
                continue
            except (DiskFull, TooManyFiles) as failure:
                directory.note_failure(failure)
            except DiskFailed as failure:
                directory.take_offline(failure)
        kept.add(departure.token)
        if used is None or directory.failed:
            place = (broker.image.topics[name].topic_id, index)
            replicas.move_sources.note(place, name, directory.directory_id)
        else:
            replicas.move_sources.wait(
                MoveSource(used, directory, retired, _keep_marker, is_tried=True)
            )
    return kept


def _keep_marker() -> None:
    """Keep the marker of the copy until the next start, which reads the same from it."""


def drop_marks(
    finished: Mapping[tuple[LogDirectory, str], Sequence[FutureMark]], kept: Collection[str]
) -> None:
    """Remove markers after the checkpoints have the starts of the logs, except for kept originals.
    A marker that stays does no harm."""
    for (directory, name), arrivals in finished.items():
        if not directory.failed:
            needless = [each for each in arrivals if each.token not in kept]
            with suppress(DiskFailed):
                drop_future_marks(directory.disk, name, needless)


def restart_moves(broker: "StartupBroker", wishes: RequestedMoves) -> None:
    """Start interrupted moves again, after the partitions are loaded. Waits for the disks."""
    for (partition, directory), entries in wishes.items():
        if not directory.failed:
            try:
                _wish_again(broker, partition, directory, entries)
            except (DiskFull, TooManyFiles) as failure:
                directory.note_failure(failure)  # the next start looks at it again
            except DiskFailed as failure:
                directory.take_offline(failure)


def _wish_again(
    broker: "StartupBroker",
    wanted: TopicPartition,
    directory: LogDirectory,
    entries: Sequence[PartitionDirectory],
) -> None:
    topic = broker.image.topics.get(wanted.topic)
    partition = broker.replicas.by_name.get(wanted.topic, {}).get(wanted.partition)
    meant: list[str] = []
    for entry in entries:
        is_known = topic is not None and wanted.partition in topic.partitions
        of_it = (None, topic.topic_id if topic else None)  # another topic may have had the name
        is_there = partition is not None and partition.directory is directory
        if is_known and not is_there and read_metadata(directory.disk, entry.name) in of_it:
            meant.append(entry.name)
        else:
            aside = deleted_name(entry.partition, broker.world.entropy)
            broker.replicas.retire_now(directory, entry.name, aside)
    if not meant:
        return
    if partition is None or partition.directory.failed:
        log.warning("%s moves to %s when it is no longer offline", wanted, directory.disk.root)
    else:
        broker.moves.ask(partition, directory, meant)
