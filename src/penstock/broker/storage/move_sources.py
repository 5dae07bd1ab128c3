"""Source directories of finished moves, until they are removed.

The source keeps its name and its marker until the file of placements names the new directory
durably: any subset of the directories then shows a start that the partition exists. After that the
source is renamed and removed. While the new directory is offline, the source stays. When the topic
is deleted, the source is removed in any case: a new topic may need the name.

The file of placements lists the sources, too: a start knows them also after their disk was away, or
after their topic was deleted. The same holds for copies that do not count, and for directories of
deleted topics (partition_deletion.py).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.storage.placements import Placements, TopicIdPartition
from penstock.broker.storage.rename_deleted import rename_deleted
from penstock.world import DiskFailed, DiskFull, FileLost, TooManyFiles, World

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.moves")

RETRY_MS = 10_000  # after a full disk, or too many open files


class MoveSource(NamedTuple):
    """A directory that a partition has moved away from."""

    partition: "Partition"
    source: "LogDirectory"
    retired: str  # its new name
    when_gone: Callable[[], None]
    is_tried: bool = False  # a start has tried it, and a full disk said that it could not be


class MoveSources:
    """Sources of all moves of a node. Used on the loop only."""

    def __init__(
        self,
        world: World,
        placements: Placements,
        remove_later: Callable[["LogDirectory", str], None],
        is_stopping: Callable[[], bool],
        stall: Callable[[str], None],
    ) -> None:
        """Make an empty list of sources. `stall` gets the name of a deleted partition that stays in
        use for long."""
        self._world = world
        self._placements = placements
        self._remove_later = remove_later
        self._is_stopping = is_stopping
        self._stall = stall
        self._waiting: dict[Partition, dict[LogDirectory, MoveSource]] = {}
        self._going: set[str] = set()  # the new names of those that are being renamed
        self._tried: set[str] = set()  # the same, of those that were tried
        self._then: dict[Partition, list[Callable[[], None]]] = {}
        self._left: dict[
            TopicIdPartition, tuple[str, dict[bytes, None]]
        ] = {}  # topic, directory ids

    @property
    def busy(self) -> bool:
        return bool(self._going)

    # -- directories with files

    def note(self, place: TopicIdPartition, topic: str, directory_id: bytes) -> None:
        self._left.setdefault(place, (topic, {}))[1][directory_id] = None
        self._placements.changed()

    def forget(self, place: TopicIdPartition, directory_id: bytes) -> None:
        noted = self._left.get(place)
        if noted is not None and noted[1].pop(directory_id, directory_id) is None:
            if not noted[1]:
                del self._left[place]
            self._placements.changed()

    @property
    def left(self) -> Mapping[TopicIdPartition, list[bytes]]:
        return {place: list(where) for place, (_, where) in self._left.items()}

    def left_in(
        self, partition: "Partition", directories: Iterable["LogDirectory"]
    ) -> Iterable["LogDirectory"]:
        """Return other working directories that may hold files of a partition."""
        _, where = self._left.get((partition.topic_id, partition.index), ("", {}))
        working = [each for each in directories if not each.failed]
        others = (each for each in working if each is not partition.directory)
        return [each for each in others if each.directory_id in where]

    @property
    def names(self) -> Mapping[bytes, str]:
        """Return the names of the topics."""
        return {topic_id: topic for (topic_id, _), (topic, _) in self._left.items()}

    # -- retiring

    def wait(self, original: MoveSource) -> None:
        """Retire a source after the placements are durable: its move has ended."""
        partition = original.partition
        place = (partition.topic_id, partition.index)
        self.note(place, partition.topic, original.source.directory_id)
        self._waiting.setdefault(partition, {})[original.source] = original
        if not partition.gone:  # else it goes with the rest of its topic
            self._placements.when_written(lambda: self._put_away(original))

    def is_in(self, partition: "Partition", directory: "LogDirectory") -> bool:
        return directory in self._waiting.get(partition, {})

    def when_gone(self, partition: "Partition", call: Callable[[], None]) -> None:
        """Call when no source of a partition waits; a source on a failed disk may stay."""
        if partition in self._waiting:
            self._then.setdefault(partition, []).append(call)
        else:
            call()

    def let_go(self, partition: "Partition", then: Callable[[], None]) -> None:
        """Retire all sources of a deleted partition at once."""
        for original in list(self._waiting.get(partition, {}).values()):
            self._put_away(original)
        self.when_gone(partition, then)

    def _put_away(self, original: MoveSource) -> None:
        partition, source = original.partition, original.source
        waits = self._waiting.get(partition, {}).get(source) is original
        if not waits or original.retired in self._going or self._is_stopping():
            return
        if source.failed:
            self._stays(original)
            return
        if partition.directory.failed and not partition.gone:
            self._log_wait(original)
            return
        self._going.add(original.retired)
        again = original.is_tried or original.retired in self._tried

        def rename() -> None:
            name = str(partition)
            new = original.retired
            if not rename_deleted(source.disk, name, partition.topic_id, new, again=again):
                raise FileLost(f"{source.disk.root}/{name} is of another topic")

        def renamed(failure: DiskFailed | None) -> None:
            self._going.discard(original.retired)
            if isinstance(failure, (DiskFull, TooManyFiles)):
                self._tried.add(original.retired)
                source.note_failure(failure)
                if partition.gone:
                    self._stall(str(partition))
                again_ms = self._world.clock.mono_ms() + RETRY_MS
                self._world.timers.at(again_ms, lambda: self._put_away(original))
            elif failure is not None:
                self._stays(original)
                if not isinstance(failure, FileLost):  # away with its disk, or gone
                    source.fail(failure)
            else:
                self._is_away(original)

        source.disk.offload_all([rename], renamed)

    def _is_away(self, original: MoveSource) -> None:
        partition, source = original.partition, original.source
        self._remove_later(source, original.retired)
        self.forget((partition.topic_id, partition.index), source.directory_id)
        original.when_gone()
        self._waits_no_more(original)

    def _stays(self, original: MoveSource) -> None:
        log.error(
            "what %s has left in %s could not be put away, and does not count: a start that can"
            " read that directory removes it",
            original.partition,
            original.source.disk.root,
        )
        self._waits_no_more(original)

    def _log_wait(self, original: MoveSource) -> None:
        log.error(
            "what %s has left in %s is not put away, as it was used in %s since, which failed: a"
            " start that can read both does it, and so does the deletion of the topic",
            original.partition,
            original.source.disk.root,
            original.partition.directory.disk.root,
        )

    def _waits_no_more(self, original: MoveSource) -> None:
        self._tried.discard(original.retired)
        waiting = self._waiting[original.partition]
        del waiting[original.source]
        if not waiting:
            del self._waiting[original.partition]
            for call in self._then.pop(original.partition, []):
                call()
