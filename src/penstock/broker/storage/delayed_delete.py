"""Delayed removal of renamed files and directories, which readers may still use.

The callers rename files before; a start finds files of a killed process by their names, and removes
them. A missing file is logged, and is no error.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.broker.progress import TaskProgress
from penstock.world import Disk, DiskFailed, World

if TYPE_CHECKING:
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.deletions")


class _Round:
    """Removals in one directory, for their progress."""

    __slots__ = ("done", "since_ms", "total")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.done = 0
        self.total = 0


class _Removal:
    """The removal of one name, on a worker."""

    __slots__ = ("_disk", "_name", "is_missed", "is_taken", "was_there")

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self.was_there = False
        self.is_missed = False
        self.is_taken = False  # perhaps removed by a former removal of the same name

    def run(self) -> None:
        if self._disk.exists(self._name):
            self._disk.remove_now(self._name)
            self.was_there = True
        else:
            parent = self._name.rpartition("/")[0]
            self.is_missed = self._disk.exists(parent)  # else removed with its partition


class DelayedDeletions:
    """All delayed removals of a node. Used on the loop only."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rounds: dict[LogDirectory, _Round] = {}
        self._newest: dict[tuple[LogDirectory, str], _Removal] = {}
        self.removed = 0  # since the start

    @property
    def waiting(self) -> int:
        return sum(each.total - each.done for each in self._rounds.values())

    def later(self, directory: "LogDirectory", name: str, delay_ms: int) -> None:
        """Remove a file or a directory after a delay. If the same name waits already, its delay
        starts again."""
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

    def _ended(self, directory: "LogDirectory", going: _Round) -> None:
        going.done += 1
        if going.done == going.total:
            self._rounds.pop(directory, None)

    def progress(self) -> Iterator[TaskProgress]:
        for directory, going in self._rounds.items():
            yield TaskProgress(
                "delete",
                directory.disk.root,
                going.done,
                going.total,
                "files",
                going.since_ms,
                "each goes when file.delete.delay.ms has passed",
            )
