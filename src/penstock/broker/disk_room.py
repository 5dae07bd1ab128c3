"""Stops writes before a disk is full: the rest is kept for the metadata log and for checkpoints.

Producers get the retriable KAFKA_STORAGE_ERROR while reads and deletions go on, and are served
again when there is room. How soon to look again depends on how much is left: a disk with plenty is
asked once a second, a nearly full one a hundred times. A look may be late, so the bytes of records
are counted between two of them: no more than a part of what was spare is written before the next.

What is free above the reserve (`Directory.spare_bytes`) is all that compaction and moves between
directories may take; compaction leaves some of it to producers (cleaning/room.py). The first look
also finds directories that belong to no partition of this node, and so does the one after somebody
has asked for them.
"""

from math import inf
from typing import TYPE_CHECKING

from penstock.log.directory import Kind, parse_directory
from penstock.world import DiskFailed, DiskFull, Timer

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory

LOOK_MS_MIN = 10.0
LOOK_MS_MAX = 1_000.0
FILLED_PER_MS = 2_000_000  # bytes: faster than the disks that a node meets
SHARE_MAX = 20  # at most a twentieth of a disk is kept
BACK_RATIO = 1.25  # writes go on when this much more than the reserve is free
UNSEEN_SHARE = 0.5  # of what is spare, between two looks: the rest is for the cleaner, and moves


class _Look:
    """One directory, looked at from time to time."""

    def __init__(self, broker: "Broker", directory: "Directory") -> None:
        self._broker = broker
        self._directory = directory
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
            directory.heard(failure)
            if not directory.failed:
                self._look_later(LOOK_MS_MAX)
            return
        reserve = min(self._broker.settings.disk_reserve_bytes, self._total_bytes // SHARE_MAX)
        self._count(reserve)
        if self._strays is not None:
            directory.strays, directory.strays_known = self._strays, True
            self._strays = None
        if self._free_bytes < reserve:
            if not directory.refuses_writes:
                directory.refuses_writes = True
                directory.filled_up(
                    DiskFull(
                        f"{self._free_bytes} bytes are left, and {reserve} are kept for metadata"
                        " (log.disk.reserve.bytes)"
                    )
                )
            self._broker.cleaning.directory_filled(directory)
        elif directory.refuses_writes and self._free_bytes >= BACK_RATIO * reserve:
            directory.refuses_writes = False
            directory.has_room()
        left = abs(self._free_bytes - reserve)
        self._look_later(min(LOOK_MS_MAX, max(LOOK_MS_MIN, left / FILLED_PER_MS)))

    def _count(self, reserve: int) -> None:
        directory, spare = self._directory, self._free_bytes - reserve
        directory.spare_bytes, directory.reserve_bytes = spare, reserve
        directory.unseen_bytes -= self._seen_bytes
        directory.unseen_bytes_max = UNSEEN_SHARE * max(0, spare) if reserve else inf

    def _look_later(self, wait_ms: float) -> None:
        world = self._broker.world
        self.timer = world.timers.at(world.clock.mono_ms() + wait_ms, self.look)


def _is_stray(name: str) -> bool:
    parsed = parse_directory(name)
    return parsed is not None and parsed.kind is Kind.STRAY


class DiskRoom:
    """All directories of a node, until it stops."""

    def __init__(self, broker: "Broker") -> None:
        self._looks = [_Look(broker, each) for each in broker.hosting.directories]

    def start(self) -> None:
        for each in self._looks:
            each.look()

    def stop(self) -> None:
        for each in self._looks:
            each.stopped = True
            if each.timer is not None:
                each.timer.cancel()
