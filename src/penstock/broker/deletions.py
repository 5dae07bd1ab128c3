"""Files that have left their log, or their node, and wait until nobody can be reading them.

They were renamed before: what a killed process leaves behind is found by its name, and goes then.
Whoever hands a name over has renamed it; that nothing is there is said, and does not count.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.progress import Progress
from penstock.world import Disk, DiskFailed, World

if TYPE_CHECKING:
    from penstock.broker.directory import Directory

log = logging.getLogger("penstock.deletions")


class _Round:
    """What goes from one directory, from the first that waits to the last that is gone."""

    __slots__ = ("done", "since_ms", "total")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.done = 0
        self.total = 0


class _Removal:
    """One name, on a worker: looking for it may wait for the disk as well."""

    __slots__ = ("_disk", "_name", "is_missed", "is_taken", "was_there")

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self.was_there = False
        self.is_missed = False
        self.is_taken = False  # perhaps: by the removal of another that had the name

    def run(self) -> None:
        if self._disk.exists(self._name):
            self._disk.remove_now(self._name)
            self.was_there = True
        else:
            parent = self._name.rpartition("/")[0]
            self.is_missed = self._disk.exists(parent)  # else it went with its partition


class Deletions:
    """Of a whole node. Used on the loop only."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rounds: dict[Directory, _Round] = {}
        self._newest: dict[tuple[Directory, str], _Removal] = {}
        self.removed = 0  # since the start

    @property
    def waiting(self) -> int:
        return sum(each.total - each.done for each in self._rounds.values())

    def later(self, directory: "Directory", name: str, delay_ms: int) -> None:
        """Unlink what was renamed to `name`, a file or a directory, after so much time. If another
        one had that name and still waits, it is there no more: the time begins anew."""
        going = self._rounds.get(directory)
        if going is None:
            going = self._rounds[directory] = _Round(self._world.clock.wall_ms())
        going.total += 1

        removal = self._newest[directory, name] = _Removal(directory.disk, name)

        def removed(failure: DiskFailed | None) -> None:
            newest = self._newest.get((directory, name))
            if newest is removal:
                del self._newest[directory, name]
            elif newest is not None:
                newest.is_taken = True
            if failure is not None:
                log.error("cannot remove %s/%s: %s", directory.disk.root, name, failure)
            elif removal.was_there:
                self.removed += 1
            elif removal.is_missed and newest is removal and not removal.is_taken:
                log.warning("%s/%s was to be removed and is not there", directory.disk.root, name)
            self._ended(directory, going)

        def remove() -> None:
            if self._newest.get((directory, name)) is not removal:
                self._ended(directory, going)
            elif directory.failed:
                del self._newest[directory, name]
                self._ended(directory, going)
            else:
                directory.disk.offload_all([removal.run], removed)

        self._world.timers.at(self._world.clock.mono_ms() + delay_ms, remove)

    def _ended(self, directory: "Directory", going: _Round) -> None:
        going.done += 1
        if going.done == going.total:
            self._rounds.pop(directory, None)

    def progress(self) -> Iterator[Progress]:
        for directory, going in self._rounds.items():
            yield Progress(
                "delete",
                directory.disk.root,
                going.done,
                going.total,
                "files",
                going.since_ms,
                "each goes when file.delete.delay.ms has passed",
            )
