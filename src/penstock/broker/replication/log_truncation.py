"""Truncation of a follower's log, with everything that must stand still meanwhile.

The cleaner leaves the log, and a move to another directory ends before. A recovery point that
covers none of the removed records is durable first: a start would take a log that ends before its
recovery point for a damaged one.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.partitions.partition import Partition
from penstock.errors import KafkaError
from penstock.world import DiskFailed, DiskFull

if TYPE_CHECKING:
    from penstock.broker.replication.broker_view import ReplicationBroker

log = logging.getLogger("penstock.replication")

AGAIN_MS = 100  # after a full disk, or while the partition moves


class LogTruncation:
    """One truncation. `done` is called when appends may go on, or never if the disk has failed."""

    def __init__(
        self,
        broker: "ReplicationBroker",
        partition: Partition,
        offset: int,
        done: Callable[[], None],
        *,
        restart: bool,
    ) -> None:
        """Prepare to remove the records from `offset` on; with `restart` all records, so that the
        log begins again at `offset`."""
        self._broker = broker
        self._partition = partition
        self._offset = offset
        self._restart = restart
        self._done = done

    def begin(self) -> None:
        self._broker.cleaner.pause(self._partition, self._cleaner_paused)

    def _cleaner_paused(self) -> None:
        partition = self._partition
        if partition.gone:
            self._end()
            return
        if self._broker.moves.is_moving(partition):
            self._later(self._cleaner_paused)
            return
        if not self._restart and self._offset >= partition.log.end_offset:
            self._truncate_when_warm()
            return
        log.info(
            "%s is cut from offset %d to %d: its leader's log differs from there on",
            partition,
            partition.log.end_offset,
            self._offset,
        )
        self._announce()

    def _later(self, step: Callable[[], None]) -> None:
        self._broker.world.timers.at(self._broker.world.clock.mono_ms() + AGAIN_MS, step)

    def _announce(self) -> None:
        partition, checkpoints = self._partition, self._broker.replicas.checkpoints
        if partition.gone:
            self._end()
        elif self._broker.moves.is_moving(partition):
            self._later(self._announce)
        else:
            # A restart removes all records, also if it begins behind them.
            partition.log.announce_truncation(0 if self._restart else self._offset)
            checkpoints.recovery_points(partition.directory, self._announced)

    def _announced(self, failure: DiskFailed | None) -> None:
        if isinstance(failure, DiskFull):
            self._later(self._announce)
        elif failure is not None:
            self._failed(KafkaError(str(failure)))
        elif self._partition.log.truncated_from > 0:
            self._truncate_when_warm()
        else:
            # The file of placements tells which partitions have durable records.
            placements = self._broker.replicas.placements
            placements.when_written(self._truncate_when_warm)
            placements.write_at_once(lambda: None)

    def _truncate_when_warm(self) -> None:
        self._broker.when_warm(self._truncate, lambda _: None, self._failed)

    def _truncate(self) -> None:
        """Truncate, once all that must be read is in memory. May raise Cold."""
        partition, now_ms = self._partition, self._broker.world.clock.wall_ms()
        if partition.gone:
            self._end()
            return
        if self._broker.stopping:
            return  # the stop writes down what it closes; the next start asks the leader again
        opened = partition.log
        truncate = opened.truncate_fully_and_start_at if self._restart else opened.truncate_to
        try:
            truncate(self._offset, now_ms, self._truncated)
        except DiskFailed as failure:
            partition.directory.fail(failure)
            self._failed(KafkaError(str(failure)))

    def _truncated(self, failure: DiskFailed | None) -> None:
        partition = self._partition
        if failure is not None:
            partition.directory.fail(failure)
            self._failed(KafkaError(str(failure)))
            return
        partition.was_truncated()
        self._end()

    def _failed(self, error: KafkaError) -> None:
        """Leave the follower without its leader: its directory is offline, or full."""
        log.error("%s is not truncated and follows no more: %s", self._partition, error)
        self._broker.cleaner.resume(self._partition)

    def _end(self) -> None:
        self._broker.cleaner.resume(self._partition)
        self._done()
