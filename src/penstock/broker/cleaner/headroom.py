"""Room for cleanings on a disk, above log.disk.reserve.bytes.

A cleaning writes at most the bytes that it reads, and replaced segments stay for
file.delete.delay.ms. These bytes must be free above the reserve, beside the claims of other jobs
and beside the writes of producers until the next look at the disk. A log without room waits in
line; the log names the first one of a directory.

Producers may still take the room. So the cleaning process checks the disk before each write
(log/compaction/cleaned_segment.py), and ends before the reserve is touched.
"""

import logging
from typing import TYPE_CHECKING

from penstock.broker.cleaner.dirty_ratio import DirtyRange

if TYPE_CHECKING:
    from penstock.broker.cleaner.broker_view import CleanerBroker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

log = logging.getLogger("penstock.cleaning")


# Above the reserve, for the writes of producers between two looks at the disk.
HEADROOM_BYTES_MAX = 16 * 1024 * 1024


def headroom_bytes(directory: "LogDirectory") -> int:
    """Return the room above the reserve that stays free; on a small disk, at most the reserve."""
    return min(directory.reserve_bytes, HEADROOM_BYTES_MAX)


def kept_bytes(directory: "LogDirectory") -> int:
    """Return the bytes of a disk that no cleaning may take."""
    return directory.reserve_bytes + headroom_bytes(directory)


def bytes_written_max(dirt: DirtyRange) -> int:
    return dirt.clean_bytes + dirt.dirty_bytes


class CleanerHeadroom:
    """Claims of cleanings on the disks of a node. Used on the loop only."""

    def __init__(self, broker: "CleanerBroker") -> None:
        self._broker = broker
        self._claims: dict[Partition, int] = {}
        self._waiting: dict[Partition, None] = {}
        self._warned: dict[LogDirectory, None] = {}

    def claim(self, partition: "Partition", dirt: DirtyRange) -> None:
        """Reserve room for a cleaning until `give_back`."""
        self._claims[partition] = bytes_written_max(dirt)
        if partition in self._waiting:
            del self._waiting[partition]
            self._warned.pop(partition.directory, None)

    def give_back(self, partition: "Partition") -> None:
        self._claims.pop(partition, None)

    def claimed_bytes(self, directory: "LogDirectory") -> int:
        return sum(size for each, size in self._claims.items() if each.directory is directory)

    def forget(self, partition: "Partition") -> None:
        self._waiting.pop(partition, None)

    def lacks(self, partition: "Partition", dirt: DirtyRange) -> bool:
        """Return whether the disk lacks room for a cleaning, or was not looked at yet."""
        directory, needed = partition.directory, bytes_written_max(dirt)
        if directory.spare_bytes is None:
            return True
        if not directory.rejects_writes:
            promised = self.claimed_bytes(directory) - self._claims.get(partition, 0)
            promised += self._broker.moves.claimed_bytes(directory)
            if needed <= directory.spare_bytes - promised - headroom_bytes(directory):
                return False
        self._waiting[partition] = None
        if directory not in self._warned:
            self._warned[directory] = None
            log.warning(
                "the cleaning of %s waits for room: it may write %d bytes, and %d are free in %s"
                " above what is kept (log.disk.reserve.bytes) and what others were promised; this"
                " is not said again of other logs there",
                partition,
                needed,
                max(0, directory.spare_bytes - headroom_bytes(directory)),
                directory.disk.root,
            )
        return True

    def waits(self, partition: "Partition") -> bool:
        return partition in self._waiting
