"""What deleted topics leave in the directories of this node, until it is taken away.

The directory of a partition that is no more gets another name, and is removed later. Until then its
name is used for nothing else, and the file of placements says whose it is: should the node die now,
or the disk be away, the next start that can look there takes it. A full disk, or too many open
files, let it wait: they are no reason to do without all that is in the directory.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.making import Making, Wanted
from penstock.broker.placements import Place, Placed
from penstock.log.directory import Kind, marked_name, read_metadata
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

    name: str
    partition: "Partition | Wanted"
    directory: "Directory"
    new: str
    again: bool = False  # it was tried before


class Leaving:
    """Of a whole node. Used on the loop only."""

    def __init__(self, broker: "Broker", making: Making) -> None:
        self._broker = broker
        self._world = broker.world
        self._making = making
        self._places: dict[Place, tuple[str, Placed]] = {}

    @property
    def places(self) -> Mapping[Place, tuple[str, Placed]]:
        """Where directories still have their names, with the topics that they belonged to."""
        return self._places

    def note(self, place: Place, topic: str, placed: Placed) -> None:
        self._places[place] = topic, placed

    # -- one that was in use

    def take_all(self, partition: "Partition") -> None:
        """Where it is, and where a move has left something of it."""
        name = str(partition)
        self._making.hold(name)

        def take_the_rest() -> None:
            if partition.directory.failed:
                self._making.let_go(name)
            else:
                self.take(name, partition, partition.directory)

        self._broker.hosting.originals.let_go(partition, take_the_rest)

    def take(self, name: str, partition: "Partition | Wanted", directory: "Directory") -> None:
        """Give the directory of a partition that is no more another name; it goes later."""
        self._making.hold(name)
        self._take(_Taking(name, partition, directory, self._new_name(partition)))

    def take_later(
        self,
        name: str,
        partition: "Partition | Wanted",
        directory: "Directory",
        failure: DiskFailed,
    ) -> None:
        """The same for what a start could not rename for want of room, or of files."""
        self._making.hold(name)
        taking = _Taking(name, partition, directory, self._new_name(partition))
        self._take_again(taking, failure)

    def _new_name(self, partition: "Partition | Wanted") -> str:
        unique = self._world.entropy.uuid().hex()
        return marked_name(TopicPartition(partition.topic, partition.index), Kind.DELETED, unique)

    def _take(self, taking: "_Taking") -> None:
        name, partition, directory, new, again = taking
        place = (partition.topic_id, partition.index)

        def renamed(failure: DiskFailed | None) -> None:
            if isinstance(failure, (DiskFull, TooManyFiles)):
                self._take_again(taking, failure)
                return
            # What is gone at the second try got its name with the first.
            if failure is None or (again and isinstance(failure, FileLost)):
                self._places.pop(place, None)
                self._broker.hosting.placements.arrived(place)
                self._broker.hosting.remove_later(directory, new)
            else:
                directory.fail(failure)
            self._making.let_go(name)

        directory.disk.rename(name, new, renamed)

    def _take_again(self, taking: "_Taking", failure: DiskFailed) -> None:
        """Later, unless the node stops or the directory fails: then a start sees to it."""
        taking.directory.heard(failure)

        def due() -> None:
            if taking.directory.failed:
                self._making.let_go(taking.name)
            elif not self._broker.stopping:
                self._take(taking._replace(again=True))

        self._world.timers.at(self._world.clock.mono_ms() + RETRY_MS, due)

    # -- those that were offline

    def take_refused(self, refused: Mapping[Place, "Refused"]) -> None:
        """Nobody uses their files, and they may be in any directory, or in several: partitions are
        refused for that as well. Those of a directory that is away go when it is back."""
        for place, each in refused.items():
            self.note(place, each.partition.topic, Placed(each.directory_id, each.state))
            self._making.hold(str(each.partition))
        working = [each for each in self._broker.hosting.directories if not each.failed]
        left = len(working)

        def taken() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                for place, each in refused.items():
                    self._leave_what_is_away(place, each)
                    self._broker.hosting.placements.arrived(place)
                    self._making.let_go(str(each.partition))

        for directory in working:
            self._take_files(directory, refused, taken)
        if not working:
            taken()

    def _leave_what_is_away(self, place: Place, refused: "Refused") -> None:
        """A start that can look there knows then whose it is."""
        hosting = self._broker.hosting
        self._places.pop(place, None)
        seen = {each.directory_id for each in hosting.directories if not each.failed}
        failed = [hosting.identity(each) for each in hosting.directories if each.failed]
        perhaps_in = [refused.directory_id, refused.used_in or ZERO_ID, *failed]
        perhaps_in += hosting.placements.announced_in(place)
        for directory_id in dict.fromkeys(perhaps_in):
            if directory_id != ZERO_ID and directory_id not in seen:
                hosting.originals.note(place, refused.partition.topic, directory_id)

    def _take_files(
        self,
        directory: "Directory",
        refused: Mapping[Place, "Refused"],
        done: Callable[[], None],
    ) -> None:
        disk = directory.disk
        gone: list[str] = []

        def take(topic_id: bytes, partition: TopicPartition, aside: str) -> None:
            # Another topic may have the name, and its files are not ours to take.
            name = str(partition)
            if disk.is_directory(name) and read_metadata(disk, name) in (None, topic_id):
                disk.rename_now(name, aside)
                gone.append(aside)

        def taken(failure: DiskFailed | None) -> None:
            for name in gone:
                self._broker.hosting.remove_later(directory, name)
            if isinstance(failure, (DiskFull, TooManyFiles)):
                directory.heard(failure)
                again_ms = self._world.clock.mono_ms() + RETRY_MS
                self._world.timers.at(again_ms, again)
                return
            if failure is not None:
                directory.fail(failure)
            done()

        def again() -> None:
            if directory.failed:
                done()
            elif not self._broker.stopping:  # else a start sees to it
                self._take_files(directory, refused, done)

        takes = []
        for (topic_id, _), each in refused.items():
            unique = self._world.entropy.uuid().hex()
            aside = marked_name(each.partition, Kind.DELETED, unique)
            takes.append(partial(take, topic_id, each.partition, aside))
        disk.offload_all(takes, taken)
