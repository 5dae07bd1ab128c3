"""Background tasks of a broker: checkpoints, retention, expiry of producers.

Each task runs in slices with a time budget, so that clients do not notice the task.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from penstock.broker.background.throttled_log import LOG_WINDOW_MS
from penstock.broker.storage.disk_reserve import DiskReserve
from penstock.config.exposure import ADVICE
from penstock.errors import KafkaError
from penstock.world import DiskFailed, Timer

if TYPE_CHECKING:
    from penstock.broker.background.broker_view import BackgroundBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.duties")

SLICE_MS_MAX = 5.0
METADATA_CHECKPOINT_MS = 1_000
MEMORY_MS = 10_000
EXPOSURE_MS = 3_600_000
CERTIFICATES_MS = 24 * 3_600_000
FREED_BYTES_MIN = 32 * 1024 * 1024  # of requests: less stays with the process, for the next ones
CHECKED_AT_ONCE_MAX = 100  # partitions whose files are compared with their logs


class BackgroundTasks:
    """Timers of one broker, until it stops."""

    def __init__(self, broker: "BackgroundBroker") -> None:
        self._broker = broker
        self._timers: dict[str, Timer] = {}
        self._durable_metadata = -1
        self._problems: set[str] = set()  # partitions in which a duty has failed
        settings = broker.settings
        first_ms = settings.first_duty_ms
        self._every("recovery points", settings.checkpoint_ms, self._checkpoint, first_ms)
        self._every("log starts", settings.start_offset_checkpoint_ms, self._log_starts, first_ms)
        self._every("high watermarks", settings.high_watermark_checkpoint_ms, self._what_changed)
        self._every("metadata", METADATA_CHECKPOINT_MS, self._metadata_changed)
        lag_look_ms = max(1, settings.replica_lag_ms_max // 2)
        self._every("lagging replicas", lag_look_ms, broker.isr_changes.look_for_laggards)
        self._every("retention", settings.retention_check_ms, self._retention, first_ms)
        self._every("producers", settings.producer_expiry_check_ms, self._expire_producers)
        self._every("refusals", LOG_WINDOW_MS, self._sum_up)
        self._every("memory", MEMORY_MS, self._release_memory)
        if settings.exposed:
            self._warn_of_exposure()
            self._every("exposure", EXPOSURE_MS, self._warn_of_exposure)
        if broker.tls.is_used:
            self._every("certificates", CERTIFICATES_MS, broker.tls.warn_of_ends)
        self._room = DiskReserve(
            broker.world,
            broker.replicas.directories,
            lambda: broker.settings.disk_reserve_bytes,
            broker.cleaner.directory_filled,
        )
        self._room.start()
        broker.cleaner.start()

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._room.stop()
        self._broker.cleaner.stop()
        self._sum_up()

    def _warn_of_exposure(self) -> None:
        for sentence in self._broker.settings.exposed:
            log.warning("%s. %s", sentence, ADVICE)

    def _sum_up(self) -> None:
        """Log how many lines were left out since the last time."""
        self._broker.rejections.sum_up()
        self._broker.auto_topics.lines.sum_up()
        coordinators = self._broker.known_coordinators
        if coordinators is not None:
            coordinators.markers.lines.sum_up()

    def _every(
        self, name: str, interval_ms: int, duty: Callable[[], None], first_ms: int | None = None
    ) -> None:
        """Call `duty` at every interval; the first time after `first_ms`, where that is sooner."""
        if interval_ms <= 0:
            return  # never; a clean stop writes everything all the same

        def due() -> None:
            self._every(name, interval_ms, duty)
            duty()

        wait_ms = interval_ms if first_ms is None else min(first_ms, interval_ms)
        at = self._broker.world.clock.mono_ms() + wait_ms
        self._timers[name] = self._broker.world.timers.at(at, due)

    def _release_memory(self) -> None:
        if self._broker.frames.fallen() + self._broker.long_requests.fallen() > FREED_BYTES_MIN:
            self._broker.world.release_memory()

    def _working(self) -> Iterator["LogDirectory"]:
        return (each for each in self._broker.replicas.directories if not each.failed)

    def _checkpoint(self) -> None:
        """Write all recovery points, since the last write may have met a full disk."""
        for directory in self._working():
            self._broker.replicas.checkpoints.recovery_points(directory)
            self._check_files(directory, iter(list(directory.partitions)), closed=True)

    def _check_files(
        self, directory: "LogDirectory", left: "Iterator[Partition]", *, closed: bool
    ) -> None:
        """Compare the files of partitions with their logs, some partitions at a time."""
        some = list(islice(left, CHECKED_AT_ONCE_MAX))
        if some and not (self._broker.stopping or directory.failed):
            self._broker.integrity.check(
                directory,
                some,
                lambda: self._check_files(directory, left, closed=closed),
                closed=closed,
            )

    def _log_starts(self) -> None:
        for directory in self._working():
            self._broker.replicas.checkpoints.start_offsets(directory)

    def _what_changed(self) -> None:
        """Checkpoint directories whose offsets moved. Recovery points go with the high watermarks,
        so that a start can tell damaged durable records from a lost tail."""
        replicas = self._broker.replicas
        for directory in self._working():
            if directory.moved:
                # Work off the loop moves the recovery point of a log at its end: look again then.
                moved, directory.moved = directory.moved, set()
                directory.moved.update(each for each in moved if each.log.busy and not each.gone)
                replicas.checkpoints.recovery_points(directory)
                replicas.checkpoints.high_watermarks(directory)
                ordered = sorted(moved, key=lambda each: (each.topic, each.index))
                self._check_files(directory, iter(ordered), closed=False)

    def _metadata_changed(self) -> None:
        durable = self._broker.metadata.describe().durable_offset
        if durable == self._durable_metadata:
            return
        self._durable_metadata = durable
        for directory in self._working():
            if directory.holds_metadata:
                self._broker.replicas.checkpoints.recovery_points(directory)

    def _retention(self) -> None:
        now_ms = self._broker.world.clock.wall_ms()
        self._in_slices(lambda partition: self._forget_old(partition, now_ms))

    def _forget_old(self, partition: "Partition", now_ms: int) -> None:
        broker, directory = self._broker, partition.directory

        def renamed(paths: list[str]) -> None:
            delay_ms = partition.settings.log.file_delete_delay_ms
            for path in paths:
                broker.replicas.remove_later(directory, path, delay_ms)

        def rejected(error: KafkaError) -> None:
            log.error("retention of %s: %s", partition, error)

        broker.when_warm(lambda: partition.forget_old(now_ms, renamed), lambda _: None, rejected)

    def _expire_producers(self) -> None:
        now_ms = self._broker.world.clock.wall_ms()
        self._in_slices(lambda partition: partition.log.remove_expired_producers(now_ms))

    def _log_problem(self, partition: "Partition", problem: Exception) -> None:
        """Log the first problem of a partition. The task goes on, and tries again next time."""
        name = str(partition)
        if name not in self._problems:
            self._problems.add(name)
            log.error("%s: a duty failed, and is tried again: %r", name, problem, exc_info=problem)

    def _in_slices(self, visit: Callable[["Partition"], object]) -> None:
        broker = self._broker
        left = iter(list(broker.replicas.all()))

        def some() -> None:
            until = broker.world.clock.mono_ms() + SLICE_MS_MAX
            for partition in left:
                if partition.gone or partition.is_offline:
                    continue
                try:
                    visit(partition)
                except DiskFailed as failure:
                    partition.directory.fail(failure)
                except Exception as problem:
                    self._log_problem(partition, problem)
                if broker.world.clock.mono_ms() >= until:
                    broker.world.timers.soon(some)
                    return

        some()
