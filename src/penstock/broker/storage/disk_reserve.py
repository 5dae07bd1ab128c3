"""Stops writes before a disk is full: the rest is kept for the metadata log and for checkpoints.

Producers get the retriable KAFKA_STORAGE_ERROR while reads and deletions go on, and are served
again when there is room. A disk with plenty of room is checked once a second, a nearly full one a
hundred times. A check may be late, so appended bytes are counted in between: only a part of the
spare room is written before the next check.

Compaction and moves may take only the room above the reserve (`LogDirectory.spare_bytes`);
compaction leaves some of it to producers (cleaner/headroom.py). The first check, and one after each
request of /status, also looks for stray directories.
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING

from penstock.log.directory import DirectoryKind, parse_directory
from penstock.world import DiskFailed, DiskFull, Timer, World

if TYPE_CHECKING:
    from penstock.broker.storage.log_dir import LogDirectory

LOOK_MS_MIN = 10.0
LOOK_MS_MAX = 1_000.0
FILLED_PER_MS = 2_000_000  # bytes: faster than the disks that a node meets
SHARE_MAX = 20  # at most a twentieth of a disk is kept
BACK_RATIO = 1.25  # writes go on when this much more than the reserve is free
UNSEEN_SHARE = 0.5  # of what is spare, between two looks: the rest is for the cleaner, and moves


class _ReserveCheck:
    """The checks of one directory."""

    def __init__(
        self,
        world: World,
        directory: "LogDirectory",
        reserve_bytes: Callable[[], int],
        filled: Callable[["LogDirectory"], None],
    ) -> None:
        self._world = world
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self._filled = filled
        self._free_bytes = 0
        self._total_bytes = 0
        self._seen_bytes = 0  # of the records, those that were written before the look began
        self._strays: tuple[str, ...] | None = None
        self.timer: Timer | None = None
        self.stopped = False

    def look(self) -> None:
        if not self.stopped and not self._directory.failed:
            self._seen_bytes = self._directory.unseen_bytes
            self._directory.disk.offload_all([self._ask], self._asked)

    def _ask(self) -> None:
        disk = self._directory.disk
        self._free_bytes, self._total_bytes = disk.free_bytes(), disk.total_bytes()
        if not self._directory.strays_known:
            self._strays = tuple(filter(_is_stray, disk.list()))

    def _asked(self, failure: DiskFailed | None) -> None:
        directory = self._directory
        if self.stopped or directory.failed:
            return
        if failure is not None:
            directory.note_failure(failure)
            if not directory.failed:
                self._look_later(LOOK_MS_MAX)
            return
        reserve = min(self._reserve_bytes(), self._total_bytes // SHARE_MAX)
        self._count(reserve)
        if self._strays is not None:
            directory.strays, directory.strays_known = self._strays, True
            self._strays = None
        if self._free_bytes < reserve:
            if not directory.rejects_writes:
                directory.rejects_writes = True
                directory.filled_up(
                    DiskFull(
                        f"{self._free_bytes} bytes are left, and {reserve} are kept for metadata"
                        " (log.disk.reserve.bytes)"
                    )
                )
            self._filled(directory)
        elif directory.rejects_writes and self._free_bytes >= BACK_RATIO * reserve:
            directory.rejects_writes = False
            directory.has_room()
        left = abs(self._free_bytes - reserve)
        self._look_later(min(LOOK_MS_MAX, max(LOOK_MS_MIN, left / FILLED_PER_MS)))

    def _count(self, reserve: int) -> None:
        directory, spare = self._directory, self._free_bytes - reserve
        directory.spare_bytes, directory.reserve_bytes = spare, reserve
        directory.unseen_bytes -= self._seen_bytes
        directory.unseen_bytes_max = UNSEEN_SHARE * max(0, spare) if reserve else inf

    def _look_later(self, wait_ms: float) -> None:
        world = self._world
        self.timer = world.timers.at(world.clock.mono_ms() + wait_ms, self.look)


def _is_stray(name: str) -> bool:
    parsed = parse_directory(name)
    return parsed is not None and parsed.kind is DirectoryKind.STRAY


class DiskReserve:
    """Checks of all directories of a node, until it stops."""

    def __init__(
        self,
        world: World,
        directories: Iterable["LogDirectory"],
        reserve_bytes: Callable[[], int],
        filled: Callable[["LogDirectory"], None],
    ) -> None:
        """Prepare a check per directory. `reserve_bytes` returns the present
        log.disk.reserve.bytes. Each check that finds a reserve reached calls `filled`."""
        self._looks = [_ReserveCheck(world, each, reserve_bytes, filled) for each in directories]

    def start(self) -> None:
        for each in self._looks:
            each.look()

    def stop(self) -> None:
        for each in self._looks:
            each.stopped = True
            if each.timer is not None:
                each.timer.cancel()
