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
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.replication.broker_view import ReplicationBroker

log = logging.getLogger("penstock.replication")

MOVE_LOOK_MS = 100


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
            at_ms = self._broker.world.clock.mono_ms() + MOVE_LOOK_MS
            self._broker.world.timers.at(at_ms, self._cleaner_paused)
            return
        if self._restart or self._offset < partition.log.end_offset:
            log.info(
                "%s is cut from offset %d to %d: its leader's log differs from there on",
                partition,
                partition.log.end_offset,
                self._offset,
            )
        # Also a restart at a higher offset removes records from the start on.
        partition.log.announce_truncation(0 if self._restart else self._offset)
        checkpoints = self._broker.replicas.checkpoints
        checkpoints.recovery_points(partition.directory, self._announced)

    def _announced(self, failure: DiskFailed | None) -> None:
        if failure is not None:
            self._failed(KafkaError(str(failure)))
        elif self._broker.moves.is_moving(self._partition):
            self._cleaner_paused()
        else:
            self._broker.when_warm(self._truncate, lambda _: None, self._failed)

    def _truncate(self) -> None:
        """Truncate, once all that must be read is in memory. May raise Cold."""
        partition, now_ms = self._partition, self._broker.world.clock.wall_ms()
        if partition.gone:
            self._end()
            return
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
