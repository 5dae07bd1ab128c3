"""`cleaner-offset-checkpoint`, one per log directory: up to where each log was cleaned.

A move takes the entry along. A deletion removes the entry; otherwise a new log of the same name
would count as clean. An entry is valid until its log is truncated below it.
"""

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from penstock.log.checkpoints import OffsetCheckpoint, format_offsets, read_offsets
from penstock.model import TopicPartition
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.cleaning")

CLEANER_OFFSETS = "cleaner-offset-checkpoint"


class CleanedOffsets:
    """All entries of all directories; written off the loop."""

    def __init__(self) -> None:
        self._offsets: dict[LogDirectory, dict[TopicPartition, int]] = {}

    def _of(self, directory: "LogDirectory") -> dict[TopicPartition, int]:
        return self._offsets.setdefault(directory, {})

    def load(self, directory: "LogDirectory") -> None:
        """Read the checkpoint of a directory. Waits for the disk; called before clients are
        served."""
        try:
            read = read_offsets(directory.disk, CLEANER_OFFSETS)
        except DiskFailed as failure:
            read = OffsetCheckpoint({}, str(failure))
        if read.complaint:
            where = f"{directory.disk.root}/{CLEANER_OFFSETS}"
            log.warning("%s is not used, all logs are cleaned anew: %s", where, read.complaint)
        self._offsets[directory] = read.offsets

    def get(self, partition: "Partition") -> int | None:
        return self._of(partition.directory).get(_key(partition))

    def put(self, partition: "Partition", offset: int) -> None:
        known = self._of(partition.directory)
        if known.get(_key(partition)) != offset:
            known[_key(partition)] = offset
            self._store(partition.directory)

    def remove(self, partition: "Partition") -> None:
        if self._of(partition.directory).pop(_key(partition), None) is not None:
            self._store(partition.directory)

    def move(self, partition: "Partition", source: "LogDirectory") -> None:
        """Move the entry of a partition to its new directory."""
        offset = self._of(source).pop(_key(partition), None)
        if offset is not None:
            self._store(source)
            self.put(partition, offset)

    def names(self, directory: "LogDirectory") -> Collection[TopicPartition]:
        return self._of(directory).keys()

    def drop(self, directory: "LogDirectory", gone: Iterable[TopicPartition]) -> None:
        """Forget partitions that are not there, in memory only."""
        for partition in gone:
            self._of(directory).pop(partition, None)

    def content(self, directory: "LogDirectory") -> bytes:
        return format_offsets(self._of(directory))

    def _store(self, directory: "LogDirectory") -> None:
        if directory.failed is None:
            directory.store(CLEANER_OFFSETS, self.content(directory))


def _key(partition: "Partition") -> TopicPartition:
    return TopicPartition(partition.topic, partition.index)
