"""The orderly end of a node: answered requests, closed logs, the markers of a clean stop."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.handlers import CONTROLLER
from penstock.broker.partitions.partition import Partition
from penstock.broker.startup.startup import write_clean_marker
from penstock.broker.storage.log_dir import LogDirectory
from penstock.world import Disk, DiskFailed, Done, FileLost, World

log = logging.getLogger("penstock.node")

STOP_MS_MAX = 3_000  # for peers and disks; writing out comes on top
DRAIN_STEP_MS = 5
FINISH_MS_MAX = 500


class NodeShutdown:
    """Drains a broker and closes its logs; `done` gets a text if a directory had no clean stop."""

    def __init__(
        self, world: World, broker: Broker, broker_epoch: int, done: Callable[[str | None], None]
    ) -> None:
        self._world = world
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._done = done
        self._failure: str | None = None
        # The quorum goes on until the end of the node.
        self._listeners = [each for each in broker.listeners if each.kind != CONTROLLER]
        self._cancelled = False

    def begin(self) -> None:
        """Stop accepting and answer parked requests, for a bounded time."""
        broker = self._broker
        broker.moves.stop()
        for listener in self._listeners:
            listener.drain()
        broker.drain_coordinators()
        self._drain(self._world.clock.mono_ms() + STOP_MS_MAX)

    def cancel(self) -> None:
        """Take no further step: the node has ended otherwise."""
        self._cancelled = True

    def _drain(self, until: float) -> None:
        """Wait, for a bounded time, until all requests are answered and no disk work runs."""
        if self._cancelled:
            return
        broker = self._broker
        now = self._world.clock.mono_ms()
        unanswered = any(
            connection.replies or connection.peer.unsent_bytes
            for listener in self._listeners
            for connection in listener.connections
        )
        if (unanswered or _is_busy(broker)) and now < until:
            self._world.timers.at(now + DRAIN_STEP_MS, lambda: self._drain(until))
            return
        broker.replicas.stop_creating()
        for listener in self._listeners:
            for connection in listener.connections:
                connection.peer.finish()
        self._part(min(until, now + FINISH_MS_MAX))

    def _part(self, until: float) -> None:
        """Let peers read their answers for a moment; then close the logs."""
        if self._cancelled:
            return
        broker = self._broker
        now = self._world.clock.mono_ms()
        if any(listener.connections for listener in self._listeners) and now < until:
            self._world.timers.at(now + DRAIN_STEP_MS, lambda: self._part(until))
            return
        for listener in self._listeners:
            listener.close_all()
        broker.stop_coordinators()
        self._close_logs()

    def _close_logs(self) -> None:
        """Close all directories in parallel; the slowest one ends the stop."""
        closing = {each: None for each in self._broker.replicas.directories if not each.failed}

        def closed(directory: LogDirectory, failure: DiskFailed | None) -> None:
            if failure is not None:
                self._failure = note_unclean_stop(directory.disk, failure)
            closing.pop(directory)
            if not closing:
                self._done(self._failure)

        for directory in list(closing):
            self._close_directory(directory, partial(closed, directory))
        if not closing:
            self._done(self._failure)

    def _close_directory(self, directory: LogDirectory, done: Done) -> None:
        """Close the logs, sync the disk, then write the marker of a clean stop. A log that lost its
        files goes on record as offline, and the others are closed cleanly."""
        broker = self._broker
        disk = directory.disk
        # A disk that hangs may yet bring others here. The next start knows which ones are damaged.
        partitions = [each for each in directory.partitions if each.log.lost is None]
        losses: list[tuple[Partition, FileLost]] = []

        def close(partition: Partition) -> None:
            try:
                partition.log.close()
            except FileLost as failure:
                losses.append((partition, failure))

        def closed(failure: DiskFailed | None) -> None:
            for partition, loss in losses:
                broker.integrity.lost_at_stop(directory, partition, loss)
            if failure is not None and losses:
                # Without a clean stop the next start finds the losses here only.
                with suppress(DiskFailed):
                    broker.replicas.placements.store_now()
            if failure is None:
                disk.offload_all([disk.sync_everything_now], synced)
            else:
                done(failure)

        def synced(failure: DiskFailed | None) -> None:
            try:
                if failure is None:
                    broker.replicas.checkpoints.all_now(directory)
                    still_here = [each for each in partitions if each in directory.partitions]
                    whole = [each for each in still_here if each.log.lost is None]
                    write_clean_marker(disk, self._broker_epoch, whole)
                done(failure)
            except DiskFailed as late:
                done(late)

        # No request uses these logs any more.
        disk.offload_all([partial(close, each) for each in partitions], closed)


def _is_busy(broker: Broker) -> bool:
    """Return whether disk work runs that a stop waits for."""
    replicas = broker.replicas
    return (
        any(partition.log.busy for partition in replicas.all())
        or any(directory.storing for directory in replicas.directories)
        or bool(broker.recompression.waiting)
        or broker.moves.busy
        or bool(replicas.creating)
    )


def note_unclean_stop(disk: Disk, failure: DiskFailed) -> str:
    """Log and return that the files of a clean stop cannot be written: the next start recovers the
    logs."""
    try:
        disk.sync_everything_now()
        kept = "All that was written is synced: the next start recovers the logs."
    except DiskFailed as worse:
        kept = f"What was written last may not be durable: {worse}."
    text = f"{disk.root} was not stopped cleanly: {failure}. {kept}"
    log.error("%s", text)
    return text
