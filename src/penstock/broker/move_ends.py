"""How a move ends: in the other directory, or with a partition that nobody may write to."""

import logging
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.originals import Original
from penstock.log.checkpoints import START_OFFSETS
from penstock.log.moving import Crossing, rehome
from penstock.log.moving_marks import Arrival, drop_arrivals
from penstock.world import DiskFailed, File, FileLost

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.moves")

MARK_RETRY_MS = 100


class Way(NamedTuple):
    """Which partition moves, from where to where."""

    broker: "Broker"
    partition: "Partition"
    source: "Directory"
    target: "Directory"
    crossing: Crossing

    def arrive(self, active: File, start_offset: int) -> None:
        """The copy counts. `start_offset` is what its mark says."""
        partition, source, target = self.partition, self.source, self.target
        log.info("%s has moved to %s", partition, target.disk.root)
        rehome(partition.log, target.disk, target.files, active, target.fail)
        if partition.log.start_offset != start_offset:
            partition.log.write_epochs()
        hosting = self.broker.hosting
        hosting.moved(partition, source, target)
        original = Original(
            partition,
            source,
            self.crossing.retired,
            lambda: self._drop_mark(start_offset),
        )
        hosting.originals.wait(original)

    def note_copy(self) -> None:
        """It may have the partition's name, and nobody can take that from it now."""
        partition = self.partition
        place = (partition.topic_id, partition.index)
        self.broker.hosting.originals.note(place, partition.topic, self.target.directory_id)

    def _drop_mark(self, start_offset: int) -> None:
        """The mark is not needed any more when the checkpoint says where the log starts. If it
        stays, the next start makes the same of it."""
        target, name, world = self.target, str(self.partition), self.broker.world
        if self.partition.gone or self.partition.directory is not target:
            return  # a topic made anew may have the name, or another copy
        if START_OFFSETS in target.storing:
            again_ms = world.clock.mono_ms() + MARK_RETRY_MS
            world.timers.at(again_ms, lambda: self._drop_mark(start_offset))
            return
        if target.failed or target.full or self.broker.stopping:
            return
        arrival = Arrival(self.crossing.source_id, self.crossing.token, start_offset, decided=True)

        def dropped(failure: DiskFailed | None) -> None:
            if failure is not None and not isinstance(failure, FileLost):
                log.warning("a mark of the move of %s stays: %s", name, failure)

        target.disk.offload_all([lambda: drop_arrivals(target.disk, name, [arrival])], dropped)

    def withdraw(self, failure: DiskFailed) -> None:
        """Both directories hold all that was acknowledged, and nobody can say which of them a
        start would choose: nothing may be added to either."""
        reason = (
            f"{self.partition} is offline: the last steps of its move from {self.source.disk.root}"
            f" to {self.target.disk.root} failed ({failure}), and could not be undone. Nothing is"
            " lost: both directories hold all of it. Repair the disks and start the node again with"
            " both of them"
        )
        log.error("%s", reason)
        self.broker.hosting.withdraw(self.partition, reason)
