"""The end of a move: the future replica takes over, or the partition goes offline."""

import logging
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.storage.move_sources import MoveSource
from penstock.log.checkpoints import START_OFFSETS
from penstock.log.future_log import MoveNames, switch_disk
from penstock.log.future_log_markers import FutureMark, drop_future_marks
from penstock.world import DiskFailed, File, FileLost

if TYPE_CHECKING:
    from penstock.broker.moves.broker_view import MovesBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.moves")

MARK_RETRY_MS = 100


class MoveCutover(NamedTuple):
    """One partition, with the source and the target of its move."""

    broker: "MovesBroker"
    partition: "Partition"
    source: "LogDirectory"
    target: "LogDirectory"
    crossing: MoveNames

    def arrive(self, active: File, start_offset: int) -> None:
        """Switch the partition to the target. `start_offset` is the one in the marker there."""
        partition, source, target = self.partition, self.source, self.target
        log.info("%s has moved to %s", partition, target.disk.root)
        switch_disk(partition.log, target.disk, target.files, active, target.fail)
        if partition.log.start_offset != start_offset:
            partition.log.write_epochs()
        replicas = self.broker.replicas
        replicas.moved(partition, source, target)
        original = MoveSource(
            partition,
            source,
            self.crossing.retired,
            lambda: self._drop_mark(start_offset),
        )
        replicas.move_sources.wait(original)

    def note_copy(self) -> None:
        """Note that the target may hold a copy under the partition's name."""
        partition = self.partition
        place = (partition.topic_id, partition.index)
        self.broker.replicas.move_sources.note(place, partition.topic, self.target.directory_id)

    def _drop_mark(self, start_offset: int) -> None:
        """Remove the marker once the checkpoint has the start of the log. A marker that stays does
        no harm: the next start reads the same from it."""
        target, name, world = self.target, str(self.partition), self.broker.world
        if self.partition.gone or self.partition.directory is not target:
            return  # a new topic may have the name, or another copy
        if START_OFFSETS in target.storing:
            again_ms = world.clock.mono_ms() + MARK_RETRY_MS
            world.timers.at(again_ms, lambda: self._drop_mark(start_offset))
            return
        if target.failed or target.full or self.broker.stopping:
            return
        arrival = FutureMark(
            self.crossing.source_id, self.crossing.token, start_offset, decided=True
        )

        def dropped(failure: DiskFailed | None) -> None:
            if failure is not None and not isinstance(failure, FileLost):
                log.warning("a mark of the move of %s stays: %s", name, failure)

        target.disk.offload_all([lambda: drop_future_marks(target.disk, name, [arrival])], dropped)

    def withdraw(self, failure: DiskFailed) -> None:
        """Take the partition offline. Both directories hold all acknowledged records, but a start
        may choose either of them: nothing may be appended."""
        reason = (
            f"{self.partition} is offline: the last steps of its move from {self.source.disk.root}"
            f" to {self.target.disk.root} failed ({failure}), and could not be undone. Nothing is"
            " lost: both directories hold all of it. Repair the disks and start the node again with"
            " both of them"
        )
        log.error("%s", reason)
        self.broker.replicas.withdraw(self.partition, reason)
