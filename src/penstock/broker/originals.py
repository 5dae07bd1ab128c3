"""What moves leave behind and nobody uses any more, until it is put away.

The original of a move keeps its name, and the mark that says where its copy is, until the file of
placements names that place durably: whichever directories the next start can read, the partition
never looks as if it had not been made. Then the original gets another name, and goes. While the
directory of the copy has failed it stays: only a start can tell what is left there. When the topic
is deleted it goes all the same, or one that is made anew would find its name taken.

Where it is, or may be, is in the file of placements too: should its disk be away for long, a start
that can read it knows what it is, also if its topic was deleted meanwhile. The same holds for a
copy that does not count and could not be taken back, and for all that is left of a deleted topic
(leaving.py).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.aside import take_aside
from penstock.broker.placements import Place, Placements
from penstock.world import DiskFailed, DiskFull, FileLost, TooManyFiles, World

if TYPE_CHECKING:
    from penstock.broker.directory import Directory
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.moves")

RETRY_MS = 10_000  # for what a full disk, or too many open files, did not let through


class Original(NamedTuple):
    """What a partition has left in `source`."""

    partition: "Partition"
    source: "Directory"
    retired: str  # what it will be called
    when_gone: Callable[[], None]
    is_tried: bool = False  # a start has tried it, and a full disk said that it could not be


class Originals:
    """Of all moves of a node. Used on the loop only."""

    def __init__(
        self,
        world: World,
        placements: Placements,
        remove_later: Callable[["Directory", str], None],
        is_stopping: Callable[[], bool],
        stall: Callable[[str], None],
    ) -> None:
        """`stall` hears of the name of a deleted partition that cannot be freed soon."""
        self._world = world
        self._placements = placements
        self._remove_later = remove_later
        self._is_stopping = is_stopping
        self._stall = stall
        self._waiting: dict[Partition, dict[Directory, Original]] = {}
        self._going: set[str] = set()  # the new names of those that are being renamed
        self._tried: set[str] = set()  # the same, of those that were tried
        self._then: dict[Partition, list[Callable[[], None]]] = {}
        self._left: dict[Place, tuple[str, dict[bytes, None]]] = {}  # topic, directory ids

    @property
    def busy(self) -> bool:
        return bool(self._going)

    # -- where something is left

    def note(self, place: Place, topic: str, directory_id: bytes) -> None:
        self._left.setdefault(place, (topic, {}))[1][directory_id] = None
        self._placements.changed()

    def forget(self, place: Place, directory_id: bytes) -> None:
        noted = self._left.get(place)
        if noted is not None and noted[1].pop(directory_id, directory_id) is None:
            if not noted[1]:
                del self._left[place]
            self._placements.changed()

    @property
    def left(self) -> Mapping[Place, list[bytes]]:
        return {place: list(where) for place, (_, where) in self._left.items()}

    def left_in(
        self, partition: "Partition", directories: Iterable["Directory"]
    ) -> Iterable["Directory"]:
        """Those that work, and have, or may have, something of it beside its own."""
        _, where = self._left.get((partition.topic_id, partition.index), ("", {}))
        working = [each for each in directories if not each.failed]
        others = (each for each in working if each is not partition.directory)
        return [each for each in others if each.directory_id in where]

    @property
    def names(self) -> Mapping[bytes, str]:
        """Of the topics."""
        return {topic_id: topic for (topic_id, _), (topic, _) in self._left.items()}

    # -- putting away

    def wait(self, original: Original) -> None:
        """The copy counts: the move has ended, or a start has found that it had."""
        partition = original.partition
        place = (partition.topic_id, partition.index)
        self.note(place, partition.topic, original.source.directory_id)
        self._waiting.setdefault(partition, {})[original.source] = original
        if not partition.gone:  # else it goes with the rest of its topic
            self._placements.when_written(lambda: self._put_away(original))

    def is_in(self, partition: "Partition", directory: "Directory") -> bool:
        return directory in self._waiting.get(partition, {})

    def when_gone(self, partition: "Partition", call: Callable[[], None]) -> None:
        """Call when nothing of it waits any more; what stays then, its disk's failure keeps."""
        if partition in self._waiting:
            self._then.setdefault(partition, []).append(call)
        else:
            call()

    def let_go(self, partition: "Partition", then: Callable[[], None]) -> None:
        """Its topic is deleted: nothing can be lost any more."""
        for original in list(self._waiting.get(partition, {}).values()):
            self._put_away(original)
        self.when_gone(partition, then)

    def _put_away(self, original: Original) -> None:
        partition, source = original.partition, original.source
        waits = self._waiting.get(partition, {}).get(source) is original
        if not waits or original.retired in self._going or self._is_stopping():
            return
        if source.failed:
            self._stays(original)
            return
        if partition.directory.failed and not partition.gone:
            self._say_that_it_waits(original)
            return
        self._going.add(original.retired)
        again = original.is_tried or original.retired in self._tried

        def rename() -> None:
            name = str(partition)
            new = original.retired
            if not take_aside(source.disk, name, partition.topic_id, new, again=again):
                raise FileLost(f"{source.disk.root}/{name} is of another topic")

        def renamed(failure: DiskFailed | None) -> None:
            self._going.discard(original.retired)
            if isinstance(failure, (DiskFull, TooManyFiles)):
                self._tried.add(original.retired)
                source.heard(failure)
                if partition.gone:
                    self._stall(str(partition))
                again_ms = self._world.clock.mono_ms() + RETRY_MS
                self._world.timers.at(again_ms, lambda: self._put_away(original))
            elif failure is not None:
                self._stays(original)
                if not isinstance(failure, FileLost):  # it is where that disk is, or nowhere
                    source.fail(failure)
            else:
                self._is_away(original)

        source.disk.offload_all([rename], renamed)

    def _is_away(self, original: Original) -> None:
        partition, source = original.partition, original.source
        self._remove_later(source, original.retired)
        self.forget((partition.topic_id, partition.index), source.directory_id)
        original.when_gone()
        self._waits_no_more(original)

    def _stays(self, original: Original) -> None:
        log.error(
            "what %s has left in %s could not be put away, and does not count: a start that can"
            " read that directory removes it",
            original.partition,
            original.source.disk.root,
        )
        self._waits_no_more(original)

    def _say_that_it_waits(self, original: Original) -> None:
        log.error(
            "what %s has left in %s is not put away, as it was used in %s since, which failed: a"
            " start that can read both does it, and so does the deletion of the topic",
            original.partition,
            original.source.disk.root,
            original.partition.directory.disk.root,
        )

    def _waits_no_more(self, original: Original) -> None:
        self._tried.discard(original.retired)
        waiting = self._waiting[original.partition]
        del waiting[original.source]
        if not waiting:
            del self._waiting[original.partition]
            for call in self._then.pop(original.partition, []):
                call()
