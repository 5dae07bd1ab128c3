"""Kafka's checkpoints of each log directory: what they should say, and when they are written.

They know a partition by its name alone. So that none is believed of another that had the name
before, a directory's are written without those that are gone before a log is made there under such
a name (departures.py); and a start writes them without what it did not find.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from penstock.broker.cleaning.offsets import CLEANER_OFFSETS
from penstock.log.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    format_offsets,
)
from penstock.model import METADATA_PARTITION, TopicPartition
from penstock.world import DiskFailed, DiskFull, Done

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory


class Checkpointing:
    """Of all directories of a node."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    # -- off the loop

    def recovery_points(self, directory: "Directory") -> None:
        points = self._recovery_points(directory)
        directory.store(RECOVERY_POINTS, lambda: format_offsets(points))
        self._broker.hosting.placements.changed()  # a partition may have become durable

    def start_offsets(self, directory: "Directory", done: Done | None = None) -> None:
        starts = self._start_offsets(directory)
        directory.store(START_OFFSETS, lambda: format_offsets(starts), done)
        if directory.departures:
            directory.store(CLEANER_OFFSETS, self._broker.cleaning.offsets.content(directory))

    def high_watermarks(self, directory: "Directory") -> None:
        marks = self._high_watermarks(directory)
        directory.store(HIGH_WATERMARKS, lambda: format_offsets(marks))

    def forget_gone(self, directory: "Directory", done: Done) -> None:
        """Write all that a start believes; `done` when it is durable, and says nothing of
        partitions that are gone by now."""
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

    def forget_gone_now(self, directory: "Directory", named: Collection[TopicPartition]) -> None:
        """The logs are loaded. `named` are the partitions in the checkpoints as they were read. On
        a full disk those that are gone wait until something is to be made there."""
        cleaned = self._broker.cleaning.offsets
        here = self._recovery_points(directory).keys()
        gone = sorted({*named, *cleaned.names(directory)} - here)
        cleaned.drop(directory, gone)
        for partition in gone:
            directory.departures.add(partition)
        try:
            for name, content in self._believed(directory).items():
                # The first one always: with it the end of the clean stop's marker is durable.
                if gone or name == RECOVERY_POINTS:
                    directory.disk.replace_now(name, content())
                    directory.departures.written(name, directory.departures.count)
        except DiskFull as failure:
            directory.filled_up(failure)
            # The file that was to make the end of the marker durable is perhaps not written.
            directory.disk.sync_everything_now()

    def start_offsets_now(self, directory: "Directory") -> bool:
        """Whether there was room for it."""
        starts = self._start_offsets(directory)
        try:
            directory.disk.replace_now(START_OFFSETS, format_offsets(starts))
        except DiskFull as failure:
            directory.filled_up(failure)
            return False
        return True

    def all_now(self, directory: "Directory") -> None:
        """For a clean stop."""
        for name, offsets in (
            (RECOVERY_POINTS, self._recovery_points(directory)),
            (START_OFFSETS, self._start_offsets(directory)),
            (HIGH_WATERMARKS, self._high_watermarks(directory)),
        ):
            directory.disk.replace_now(name, format_offsets(offsets))
        self._broker.hosting.placements.store_now()

    # -- what they say

    def _believed(self, directory: "Directory") -> dict[str, Callable[[], bytes]]:
        points, starts = self._recovery_points(directory), self._start_offsets(directory)
        cleaned = self._broker.cleaning.offsets.content(directory)
        return {
            RECOVERY_POINTS: lambda: format_offsets(points),
            START_OFFSETS: lambda: format_offsets(starts),
            CLEANER_OFFSETS: lambda: cleaned,
        }

    def _recovery_points(self, directory: "Directory") -> Mapping[TopicPartition, int]:
        points = {}
        if directory.holds_metadata:
            points[METADATA_PARTITION] = self._broker.metadata.describe().high_watermark
        for each in directory.partitions:
            points[TopicPartition(each.topic, each.index)] = each.log.recovery_point
        for refused in self._broker.hosting.refused_in(directory):
            points[refused.partition] = refused.recovery_point
        return points

    def _start_offsets(self, directory: "Directory") -> Mapping[TopicPartition, int]:
        starts = {
            TopicPartition(each.topic, each.index): each.log.start_offset
            for each in directory.partitions
            if each.log.start_offset > 0
        }
        for refused in self._broker.hosting.refused_in(directory):
            if refused.start_offset > 0:
                starts[refused.partition] = refused.start_offset
        return starts

    def _high_watermarks(self, directory: "Directory") -> Mapping[TopicPartition, int]:
        return {
            TopicPartition(each.topic, each.index): each.leader.high_watermark
            for each in directory.partitions
        }
