"""One cleaning of one partition: an order to another process, whose segments replace the old ones.

The checkpoint moves only after every group of segments is in place and durable. A crash before that
has the log cleaned again. A job that is broken off keeps the groups in place so far, which are
valid, and removes the other files.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.broker.cleaner.dirty_ratio import DirtyRange
from penstock.broker.progress import TaskProgress
from penstock.log.compaction import order as compaction
from penstock.log.compaction.order import CleaningReport, Order, SegmentGroup
from penstock.log.directory import CLEANED
from penstock.log.segment import ClosedSegment
from penstock.log.segment_swap import is_current, swap
from penstock.world import ChildTask, Disk, DiskFailed, FileLost, World

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition

log = logging.getLogger("penstock.cleaning")

CLEAN = "penstock.log.compaction.clean:clean"
# Removes files, after a delay.
RemoveLater = Callable[["Partition", list[str]], None]


class CleanerJob:
    """Ends with one call of `ended`: with the report, or with an exception, or with neither if the
    job was broken off."""

    def __init__(
        self,
        world: World,
        partition: "Partition",
        dirt: DirtyRange,
        segments: list[ClosedSegment],
        remove_later: RemoveLater,
        ended: Callable[["CleanerJob", CleaningReport | None, BaseException | None], None],
    ) -> None:
        self._world = world
        self.partition = partition
        self._segments = {each.base_offset: each for each in segments}
        self._remove_later = remove_later
        self._ended = ended
        self._errand: ChildTask | None = None
        self._groups: deque[SegmentGroup] = deque()
        self._report: CleaningReport | None = None
        self._failure: BaseException | None = None
        self._worked = False  # the other process has nothing more to say
        self._over = False
        self.broken_off = False
        self.began_ms = world.clock.wall_ms()
        self.began_mono_ms = world.clock.mono_ms()
        self._progress = compaction.CleaningProgress(
            0, dirt.clean_bytes + 2 * dirt.dirty_bytes, "starting"
        )

    def begin(self, order: Order) -> None:
        """Sync the log, then order the cleaning. The order rests on transaction markers: after a
        loss of power, a marker that was not durable could be gone."""
        held = self.partition.log
        files = [each.memory.file for each in held.closed if each.memory is not None]
        held.disk.sync_files([*files, held.active.file], lambda failure: self._work(order, failure))

    def _work(self, order: Order, failure: DiskFailed | None) -> None:
        if failure is not None or self.broken_off:
            self._has_worked(None, failure)
            return
        root = self.partition.directory.disk.root
        apart = self._world.child_processes
        self._errand = apart.run(CLEAN, root, (order,), self._received, self._has_worked)

    def break_off(self) -> None:
        """End the job soon: take over no further group, but finish a swap that has begun."""
        if not self.broken_off:
            self.broken_off = True
            self._groups.clear()
            if self._errand is not None and not self._worked:
                self._errand.stop()

    def progress(self) -> TaskProgress:
        done, total, step = self._progress
        return TaskProgress("clean", str(self.partition), done, total, "bytes", self.began_ms, step)

    @property
    def seconds(self) -> float:
        return (self._world.clock.mono_ms() - self.began_mono_ms) / 1000

    # -- messages of the other process

    def _received(self, message: Any) -> None:
        match message:
            case SegmentGroup():
                if not self.broken_off:
                    self._groups.append(message)
                    self._take_over()
            case compaction.CleaningProgress():
                self._progress = message

    def _has_worked(self, report: CleaningReport | None, failure: BaseException | None) -> None:
        self._worked = True
        self._report, self._failure = report, failure
        if failure is not None and self._has_changed():
            self.break_off()  # retention took its files: no fault of the log
        self._take_over()

    def _has_changed(self) -> bool:
        """Return whether segments of the order have left the log since."""
        held = set(map(id, self.partition.log.closed))
        return any(id(each) not in held for each in self._segments.values())

    # -- taking over

    def _take_over(self) -> None:
        held = self.partition.log
        if held.swapping or self._over:
            return
        if self.partition.gone or self.partition.directory.failed:
            self.break_off()
        if self._groups:
            group = self._groups.popleft()
            old = [self._segments.pop(base) for base in group.old]
            if is_current(held, old):
                swap(held, group, old, self._taken_over)
                return
            self.break_off()  # retention or a truncation has been here: look again from the start
        if self._worked:
            self._finish()

    def _taken_over(self, paths: list[str], failure: DiskFailed | None) -> None:
        if paths:
            self._remove_later(self.partition, paths)
            self.partition.notify_watchers()  # a reader may wait for a position that is gone
        if failure is not None:
            self._failure = self._failure or failure
            self.break_off()
        self._take_over()

    def _finish(self) -> None:
        self._over = True
        if self._failure is None and not self.broken_off:
            self._ended(self, self._report, None)
            return
        failure = self._failure
        if self.broken_off and (
            not isinstance(failure, DiskFailed) or isinstance(failure, FileLost)
        ):
            failure = None  # the job ended as told
        partition = self.partition
        if partition.gone or partition.directory.failed:
            self._ended(self, None, failure)
            return
        disk, directory = partition.directory.disk, partition.log.directory
        disk.offload_all(
            [lambda: _remove_cleaned(disk, directory)],
            lambda _failure: self._ended(self, None, failure),
        )


def _remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove cleaned files that did not replace others."""
    for name in disk.list(directory):
        if name.endswith(CLEANED):
            disk.remove_now(f"{directory}/{name}")
