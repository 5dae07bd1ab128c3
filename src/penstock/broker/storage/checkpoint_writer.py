"""Kafka's checkpoints of each log directory: their content, and their writes.

Checkpoints name a partition without its topic id. So all checkpoints of a directory are written
without a deleted partition before a log of the same name is created there (stale_checkpoints.py). A
start writes them without partitions that it did not find.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.broker.storage.cleaner_offsets import CLEANER_OFFSETS, CleanedOffsets
from penstock.broker.storage.placements import Placements
from penstock.log.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    format_offsets,
)
from penstock.model import METADATA_PARTITION, TopicPartition
from penstock.world import DiskFailed, DiskFull, Done

if TYPE_CHECKING:
    from penstock.broker.storage.log_dir import LogDirectory


class OfflineCheckpoint(Protocol):
    """A partition that cannot be used, and what the checkpoints said of its log."""

    @property
    def partition(self) -> TopicPartition: ...

    @property
    def recovery_point(self) -> int: ...

    @property
    def start_offset(self) -> int: ...


class CheckpointedReplicas(Protocol):
    """The replicas of a node, as far as checkpoints name them."""

    @property
    def placements(self) -> Placements: ...

    def offline_in(self, directory: "LogDirectory") -> Iterable[OfflineCheckpoint]: ...


class Checkpointer:
    """Writes the checkpoints of all directories of a node."""

    def __init__(
        self,
        replicas: CheckpointedReplicas,
        cleaned: CleanedOffsets,
        metadata_durable_to: Callable[[], int],
    ) -> None:
        """Keep the sources of offsets. `metadata_durable_to` returns the end of the synced metadata
        log."""
        self._replicas = replicas
        self._cleaned = cleaned
        self._metadata_durable_to = metadata_durable_to

    # -- off the loop

    def recovery_points(self, directory: "LogDirectory", done: Done | None = None) -> None:
        points = self._recovery_points(directory)
        directory.store(RECOVERY_POINTS, lambda: format_offsets(points), done)
        self._replicas.placements.changed()  # a partition may have become durable

    def start_offsets(self, directory: "LogDirectory", done: Done | None = None) -> None:
        starts = self._start_offsets(directory)
        directory.store(START_OFFSETS, lambda: format_offsets(starts), done)
        if directory.stale_checkpoints:
            directory.store(CLEANER_OFFSETS, self._cleaned.content(directory))

    def high_watermarks(self, directory: "LogDirectory") -> None:
        marks = self._high_watermarks(directory)
        directory.store(HIGH_WATERMARKS, lambda: format_offsets(marks))

    def forget_gone(self, directory: "LogDirectory", done: Done) -> None:
        """Write all checkpoints that a start reads, without deleted partitions; call `done` when
        they are durable."""
        believed = self._believed(directory)
        left = len(believed)
        failures: list[DiskFailed] = []

        def stored(failure: DiskFailed | None) -> None:
            nonlocal left
            left -= 1
            if failure is not None:
                failures.append(failure)
            if left == 0:
                done(failures[0] if failures else None)

        for name, content in believed.items():
            directory.store(name, content, stored)

    # -- at a start and at a stop: these wait for the disk

    def forget_gone_now(self, directory: "LogDirectory", named: Collection[TopicPartition]) -> None:
        """Write the checkpoints without partitions that a start did not find. `named` are the
        partitions in the checkpoints as read. On a full disk this waits until a log is created
        there."""
        cleaned = self._cleaned
        here = self._recovery_points(directory).keys()
        gone = sorted({*named, *cleaned.names(directory)} - here)
        cleaned.drop(directory, gone)
        for partition in gone:
            directory.stale_checkpoints.add(partition)
        try:
            for name, content in self._believed(directory).items():
                # The first one always: with it the end of the clean stop's marker is durable.
                if gone or name == RECOVERY_POINTS:
                    directory.disk.replace_now(name, content())
                    directory.stale_checkpoints.written(name, directory.stale_checkpoints.count)
        except DiskFull as failure:
            directory.filled_up(failure)
            # The file that was to make the end of the marker durable is perhaps not written.
            directory.disk.sync_everything_now()

    def start_offsets_now(self, directory: "LogDirectory") -> bool:
        """Write the log start offsets; return False on a full disk."""
        starts = self._start_offsets(directory)
        try:
            directory.disk.replace_now(START_OFFSETS, format_offsets(starts))
        except DiskFull as failure:
            directory.filled_up(failure)
            return False
        return True

    def all_now(self, directory: "LogDirectory") -> None:
        """Write all checkpoints, for a clean stop."""
        for name, offsets in (
            (RECOVERY_POINTS, self._recovery_points(directory)),
            (START_OFFSETS, self._start_offsets(directory)),
            (HIGH_WATERMARKS, self._high_watermarks(directory)),
        ):
            directory.disk.replace_now(name, format_offsets(offsets))
        self._replicas.placements.store_now()

    # -- content

    def _believed(self, directory: "LogDirectory") -> dict[str, Callable[[], bytes]]:
        points, starts = self._recovery_points(directory), self._start_offsets(directory)
        cleaned = self._cleaned.content(directory)
        return {
            RECOVERY_POINTS: lambda: format_offsets(points),
            START_OFFSETS: lambda: format_offsets(starts),
            CLEANER_OFFSETS: lambda: cleaned,
        }

    def _recovery_points(self, directory: "LogDirectory") -> Mapping[TopicPartition, int]:
        points = {}
        if directory.holds_metadata:
            points[METADATA_PARTITION] = self._metadata_durable_to()
        for each in directory.partitions:
            points[TopicPartition(each.topic, each.index)] = each.log.recovery_point
        for offline_replica in self._replicas.offline_in(directory):
            points[offline_replica.partition] = offline_replica.recovery_point
        return points

    def _start_offsets(self, directory: "LogDirectory") -> Mapping[TopicPartition, int]:
        starts = {
            TopicPartition(each.topic, each.index): start_offset
            for each in directory.partitions
            if (start_offset := each.checkpointed_start_offset) > 0
        }
        for offline_replica in self._replicas.offline_in(directory):
            if offline_replica.start_offset > 0:
                starts[offline_replica.partition] = offline_replica.start_offset
        return starts

    def _high_watermarks(self, directory: "LogDirectory") -> Mapping[TopicPartition, int]:
        return {
            TopicPartition(each.topic, each.index): each.leader.high_watermark
            for each in directory.partitions
        }
