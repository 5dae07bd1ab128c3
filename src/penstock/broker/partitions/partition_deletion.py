"""Deletes the directories of deleted topics.

The directory of a deleted partition is renamed, and removed later. Until the rename, no partition
of the same name is created there or moves there. The file of placements lists the directories that
hold files of the partition (move_sources.py): after a crash, or while a disk is away, the next
start that reads the directory deletes them. A full disk, or too many open files, delay the rename;
they do not fail the directory.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.partitions.partition_creation import NewPartition, PartitionCreation
from penstock.broker.storage.placements import TopicIdPartition
from penstock.broker.storage.rename_deleted import deleted_name, rename_deleted
from penstock.model import ZERO_ID, TopicPartition
from penstock.world import DiskFailed, DiskFull, FileLost, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.partitions.broker_view import PartitionsBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.partitions.replicas import OfflineReplica
    from penstock.broker.storage.log_dir import LogDirectory

RETRY_MS = 10_000  # after a full disk, or too many open files


class _Renaming(NamedTuple):
    """A directory that is being renamed."""

    topic_id: bytes
    partition: TopicPartition
    directory: "LogDirectory"
    new: str
    perhaps: bool = False  # the directory may be gone, or was renamed by an earlier attempt

    @property
    def name(self) -> str:
        return str(self.partition)

    @property
    def place(self) -> TopicIdPartition:
        return self.topic_id, self.partition.partition


class PartitionDeletion:
    """All deletions of a node. Used on the loop only."""

    def __init__(self, broker: "PartitionsBroker", creating: PartitionCreation) -> None:
        self._broker = broker
        self._world = broker.world
        self._creation = creating
        # Names that are not free yet in a directory, and the calls that wait for them.
        self._under_way: dict[tuple[LogDirectory, str], list[Callable[[], None]]] = {}

    def is_in(self, name: str, directory: "LogDirectory") -> bool:
        """Return whether a directory of this name is being deleted there."""
        return (directory, name) in self._under_way

    def when_gone(self, name: str, directory: "LogDirectory", call: Callable[[], None]) -> None:
        self._under_way[directory, name].append(call)

    # -- one that was in use

    def take_all(self, partition: "Partition") -> None:
        """Delete the directories of a partition, also those that moves left behind. The caller
        holds the name; the end of the deletion releases it."""
        originals = self._broker.replicas.move_sources

        def take_the_rest() -> None:
            for directory in originals.left_in(partition, self._broker.replicas.directories):
                leftover = self._taking(partition, directory)._replace(perhaps=True)
                self._creation.hold(leftover.name)
                self._begin(leftover)
                self._take(leftover)
            taking = self._taking(partition, partition.directory)
            self._begin(taking)
            if partition.directory.failed:
                self._end(taking)
            else:
                self._take(taking)

        originals.let_go(partition, take_the_rest)

    def take(self, wanted: NewPartition, directory: "LogDirectory") -> None:
        """Rename the directory of an unwanted partition, and remove it later."""
        taking = self._taking(wanted, directory)
        self._creation.hold(taking.name)
        self._begin(taking)
        self._take(taking)

    def take_now(self, wanted: NewPartition, directory: "LogDirectory") -> None:
        """Do the same at a start. Waits for the disk, but not for room or free descriptors."""
        taking = self._taking(wanted, directory)
        try:
            self._broker.replicas.retire_now(directory, taking.name, taking.new)
        except (DiskFull, TooManyFiles) as failure:
            self._creation.hold(taking.name)
            self._begin(taking)
            self._take_again(taking, failure)

    def _taking(
        self, partition: "Partition | NewPartition", directory: "LogDirectory"
    ) -> _Renaming:
        named = TopicPartition(partition.topic, partition.index)
        return _Renaming(
            partition.topic_id, named, directory, deleted_name(named, self._world.entropy)
        )

    def _begin(self, taking: _Renaming) -> None:
        where = (taking.directory, taking.name)
        assert where not in self._under_way, "a directory leaves once"
        self._under_way[where] = []
        directory_id = taking.directory.directory_id
        self._broker.replicas.still_left(taking.place, taking.partition.topic, directory_id)

    def _take(self, taking: _Renaming) -> None:
        directory, new = taking.directory, taking.new
        renamed: list[str] = []

        def take() -> None:
            again = taking.perhaps
            if rename_deleted(directory.disk, taking.name, taking.topic_id, new, again=again):
                renamed.append(new)

        def taken(failure: DiskFailed | None) -> None:
            if isinstance(failure, (DiskFull, TooManyFiles)):
                self._take_again(taking, failure)
                return
            for each in renamed:
                self._broker.replicas.remove_later(directory, each)
            if failure is None or (taking.perhaps and isinstance(failure, FileLost)):
                self._is_away(taking)
            else:
                directory.fail(failure)
            self._end(taking)

        directory.disk.offload_all([take], taken)

    def _take_again(self, taking: _Renaming, failure: DiskFailed) -> None:
        """Try again later. If the node stops or the directory fails, a start tries again."""
        taking.directory.note_failure(failure)
        self._creation.stall(taking.name)

        def due() -> None:
            if taking.directory.failed:
                self._end(taking)
            elif not self._broker.stopping:
                self._take(taking._replace(perhaps=True))

        self._world.timers.at(self._world.clock.mono_ms() + RETRY_MS, due)

    def _is_away(self, taking: _Renaming) -> None:
        replicas = self._broker.replicas
        replicas.move_sources.forget(taking.place, taking.directory.directory_id)
        replicas.placements.arrived(taking.place)

    def _end(self, taking: _Renaming) -> None:
        waiting = self._under_way.pop((taking.directory, taking.name))
        self._creation.let_go(taking.name)
        for call in waiting:
            call()

    # -- partitions that were offline

    def remove_offline(self, offline_replica: Mapping[TopicIdPartition, "OfflineReplica"]) -> None:
        """Delete the files of offline partitions, which may be in any directory, or in several.
        Files of a directory that is away are deleted when it is back."""
        replicas = self._broker.replicas
        everywhere = [replicas.identity(each) for each in replicas.directories]
        for place, each in offline_replica.items():
            self._creation.hold(str(each.partition))
            for directory_id in self._perhaps_in(place, each, everywhere):
                replicas.move_sources.note(place, each.partition.topic, directory_id)
        working = [each for each in replicas.directories if not each.failed]
        left = len(working)

        def looked_through() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                for place, each in offline_replica.items():
                    replicas.placements.arrived(place)
                    self._creation.let_go(str(each.partition))

        for directory in working:
            new_names = {
                place: (each.partition, deleted_name(each.partition, self._world.entropy))
                for place, each in offline_replica.items()
            }
            self._take_files(directory, new_names, looked_through)
        if not working:
            looked_through()

    def _perhaps_in(
        self,
        place: TopicIdPartition,
        offline_replica: "OfflineReplica",
        everywhere: Iterable[bytes],
    ) -> Iterable[bytes]:
        """Return the directories that may hold files of the partition."""
        perhaps_in = [offline_replica.directory_id, offline_replica.used_in or ZERO_ID, *everywhere]
        perhaps_in += self._broker.replicas.placements.announced_in(place)
        return (each for each in dict.fromkeys(perhaps_in) if each != ZERO_ID)

    def _take_files(
        self,
        directory: "LogDirectory",
        new_names: Mapping[TopicIdPartition, tuple[TopicPartition, str]],
        done: Callable[[], None],
        *,
        again: bool = False,
    ) -> None:
        replicas = self._broker.replicas
        names = cache(lambda: frozenset(directory.disk.list()))  # raises if the disk is lost
        seen: dict[TopicIdPartition, None] = {}
        renamed: list[str] = []

        def take(place: TopicIdPartition, partition: TopicPartition, new: str) -> None:
            if str(partition) in names() or (again and new in names()):
                with suppress(FileLost):
                    if rename_deleted(directory.disk, str(partition), place[0], new, again=again):
                        renamed.append(new)
            seen[place] = None

        def taken(failure: DiskFailed | None) -> None:
            for name in renamed:
                replicas.remove_later(directory, name)
            for place in seen:
                replicas.move_sources.forget(place, directory.directory_id)
            if isinstance(failure, (DiskFull, TooManyFiles)):
                directory.note_failure(failure)
                for partition, _ in new_names.values():
                    self._creation.stall(str(partition))
                again_ms = self._world.clock.mono_ms() + RETRY_MS
                self._world.timers.at(again_ms, due)
                return
            directory.note_failure(failure)
            done()

        def due() -> None:
            if directory.failed:
                done()
            elif not self._broker.stopping:  # else a start tries again
                rest = {place: each for place, each in new_names.items() if place not in seen}
                self._take_files(directory, rest, done, again=True)

        takes = [partial(take, place, *each) for place, each in new_names.items()]
        directory.disk.offload_all(takes, taken)
