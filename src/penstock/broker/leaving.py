"""What deleted topics leave in the directories of this node, until it is taken away.

The directory of a partition that is no more gets another name, and is removed later. Until then its
name is used for nothing else: no partition is made under it, and none moves to where it is. And the
file of placements says where something of it is, or may be (originals.py): should the node die now,
or a disk be away, the next start that can look there takes it. A full disk, or too many open files,
let it wait: they are no reason to do without all that is in the directory.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.aside import name_aside, take_aside
from penstock.broker.making import Making, Wanted
from penstock.broker.placements import Place
from penstock.model import ZERO_ID, TopicPartition
from penstock.world import DiskFailed, DiskFull, FileLost, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory
    from penstock.broker.hosting import Refused
    from penstock.broker.partition import Partition

RETRY_MS = 10_000  # for what a full disk, or too many open files, did not let through


class _Taking(NamedTuple):
    """A directory on its way to another name."""

    topic_id: bytes
    partition: TopicPartition
    directory: "Directory"
    new: str
    perhaps: bool = False  # it may be gone: nobody is sure of it, or it was tried before

    @property
    def name(self) -> str:
        return str(self.partition)

    @property
    def place(self) -> Place:
        return self.topic_id, self.partition.partition


class Leaving:
    """Of a whole node. Used on the loop only."""

    def __init__(self, broker: "Broker", making: Making) -> None:
        self._broker = broker
        self._world = broker.world
        self._making = making
        # Names that are not free yet, each in one directory; and who waits for that.
        self._under_way: dict[tuple[Directory, str], list[Callable[[], None]]] = {}

    def is_in(self, name: str, directory: "Directory") -> bool:
        """Whether something with this name is on its way out of that directory."""
        return (directory, name) in self._under_way

    def when_gone(self, name: str, directory: "Directory", call: Callable[[], None]) -> None:
        self._under_way[directory, name].append(call)

    # -- one that was in use

    def take_all(self, partition: "Partition") -> None:
        """Where it is, and where moves have left something of it. Its name is held by whoever asks
        for this, and let go when all is done."""
        originals = self._broker.hosting.originals

        def take_the_rest() -> None:
            for directory in originals.left_in(partition, self._broker.hosting.directories):
                leftover = self._taking(partition, directory)._replace(perhaps=True)
                self._making.hold(leftover.name)
                self._begin(leftover)
                self._take(leftover)
            taking = self._taking(partition, partition.directory)
            self._begin(taking)
            if partition.directory.failed:
                self._end(taking)
            else:
                self._take(taking)

        originals.let_go(partition, take_the_rest)

    def take(self, wanted: Wanted, directory: "Directory") -> None:
        """Give the directory of a partition that nobody wants another name; it goes later."""
        taking = self._taking(wanted, directory)
        self._making.hold(taking.name)
        self._begin(taking)
        self._take(taking)

    def take_now(self, wanted: Wanted, directory: "Directory") -> None:
        """The same for what a start finds. Waits for the disk, but not for room, nor for files."""
        taking = self._taking(wanted, directory)
        try:
            self._broker.hosting.retire_now(directory, taking.name, taking.new)
        except (DiskFull, TooManyFiles) as failure:
            self._making.hold(taking.name)
            self._begin(taking)
            self._take_again(taking, failure)

    def _taking(self, partition: "Partition | Wanted", directory: "Directory") -> _Taking:
        named = TopicPartition(partition.topic, partition.index)
        return _Taking(partition.topic_id, named, directory, name_aside(named, self._world.entropy))

    def _begin(self, taking: _Taking) -> None:
        where = (taking.directory, taking.name)
        assert where not in self._under_way, "a directory leaves once"
        self._under_way[where] = []
        directory_id = taking.directory.directory_id
        self._broker.hosting.still_left(taking.place, taking.partition.topic, directory_id)

    def _take(self, taking: _Taking) -> None:
        directory, new = taking.directory, taking.new
        renamed: list[str] = []

        def take() -> None:
            again = taking.perhaps
            if take_aside(directory.disk, taking.name, taking.topic_id, new, again=again):
                renamed.append(new)

        def taken(failure: DiskFailed | None) -> None:
            if isinstance(failure, (DiskFull, TooManyFiles)):
                self._take_again(taking, failure)
                return
            for each in renamed:
                self._broker.hosting.remove_later(directory, each)
            if failure is None or (taking.perhaps and isinstance(failure, FileLost)):
                self._is_away(taking)
            else:
                directory.fail(failure)
            self._end(taking)

        directory.disk.offload_all([take], taken)

    def _take_again(self, taking: _Taking, failure: DiskFailed) -> None:
        """Later, unless the node stops or the directory fails: then a start sees to it."""
        taking.directory.heard(failure)
        self._making.stall(taking.name)

        def due() -> None:
            if taking.directory.failed:
                self._end(taking)
            elif not self._broker.stopping:
                self._take(taking._replace(perhaps=True))

        self._world.timers.at(self._world.clock.mono_ms() + RETRY_MS, due)

    def _is_away(self, taking: _Taking) -> None:
        hosting = self._broker.hosting
        hosting.originals.forget(taking.place, taking.directory.directory_id)
        hosting.placements.arrived(taking.place)

    def _end(self, taking: _Taking) -> None:
        waiting = self._under_way.pop((taking.directory, taking.name))
        self._making.let_go(taking.name)
        for call in waiting:
            call()

    # -- those that were offline

    def take_refused(self, refused: Mapping[Place, "Refused"]) -> None:
        """Nobody uses their files, and they may be in any directory, or in several: partitions are
        refused for that as well. Those of a directory that is away go when it is back."""
        hosting = self._broker.hosting
        everywhere = [hosting.identity(each) for each in hosting.directories]
        for place, each in refused.items():
            self._making.hold(str(each.partition))
            for directory_id in self._perhaps_in(place, each, everywhere):
                hosting.originals.note(place, each.partition.topic, directory_id)
        working = [each for each in hosting.directories if not each.failed]
        left = len(working)

        def looked_through() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                for place, each in refused.items():
                    hosting.placements.arrived(place)
                    self._making.let_go(str(each.partition))

        for directory in working:
            new_names = {
                place: (each.partition, name_aside(each.partition, self._world.entropy))
                for place, each in refused.items()
            }
            self._take_files(directory, new_names, looked_through)
        if not working:
            looked_through()

    def _perhaps_in(
        self, place: Place, refused: "Refused", everywhere: Iterable[bytes]
    ) -> Iterable[bytes]:
        """A start that can look there knows then whose it is."""
        perhaps_in = [refused.directory_id, refused.used_in or ZERO_ID, *everywhere]
        perhaps_in += self._broker.hosting.placements.announced_in(place)
        return (each for each in dict.fromkeys(perhaps_in) if each != ZERO_ID)

    def _take_files(
        self,
        directory: "Directory",
        new_names: Mapping[Place, tuple[TopicPartition, str]],
        done: Callable[[], None],
        *,
        again: bool = False,
    ) -> None:
        hosting = self._broker.hosting
        names = cache(lambda: frozenset(directory.disk.list()))  # a disk that is lost has none
        seen: dict[Place, None] = {}
        renamed: list[str] = []

        def take(place: Place, partition: TopicPartition, new: str) -> None:
            if str(partition) in names() or (again and new in names()):
                with suppress(FileLost):
                    if take_aside(directory.disk, str(partition), place[0], new, again=again):
                        renamed.append(new)
            seen[place] = None

        def taken(failure: DiskFailed | None) -> None:
            for name in renamed:
                hosting.remove_later(directory, name)
            for place in seen:
                hosting.originals.forget(place, directory.directory_id)
            if isinstance(failure, (DiskFull, TooManyFiles)):
                directory.heard(failure)
                for partition, _ in new_names.values():
                    self._making.stall(str(partition))
                again_ms = self._world.clock.mono_ms() + RETRY_MS
                self._world.timers.at(again_ms, due)
                return
            directory.heard(failure)
            done()

        def due() -> None:
            if directory.failed:
                done()
            elif not self._broker.stopping:  # else a start sees to it
                rest = {place: each for place, each in new_names.items() if place not in seen}
                self._take_files(directory, rest, done, again=True)

        takes = [partial(take, place, *each) for place, each in new_names.items()]
        directory.disk.offload_all(takes, taken)
