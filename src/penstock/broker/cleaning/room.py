"""Whether a cleaning fits: what it may write must leave the reserve of its disk alone.

It writes at most what it reads, and what it replaces goes only after file.delete.delay.ms: so much
has to be free above log.disk.reserve.bytes, beside what others have been promised, and beside what
producers may write before the node looks at the disk again. A log without room waits in line and
begins when there is some; the first one of a directory is told of.

Producers were promised nothing, and may take what was free. So the process that cleans looks for
itself before each of its writes (compaction/writing.py), and ends before it touches what is kept.
"""

import logging
from typing import TYPE_CHECKING

from penstock.broker.cleaning.dirt import Dirt

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.cleaning")


# Above the reserve: what producers write between two looks, and how late a look may be.
HEADROOM_BYTES_MAX = 16 * 1024 * 1024


def headroom_bytes(directory: "Directory") -> int:
    """Of a small disk no more than its reserve."""
    return min(directory.reserve_bytes, HEADROOM_BYTES_MAX)


def kept_bytes(directory: "Directory") -> int:
    """What no cleaning may take of a disk."""
    return directory.reserve_bytes + headroom_bytes(directory)


def bytes_written_max(dirt: Dirt) -> int:
    return dirt.clean_bytes + dirt.dirty_bytes


class CleaningRoom:
    """What the cleanings of a node may take of its disks. Used on the loop only."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._claims: dict[Partition, int] = {}
        self._waiting: dict[Partition, None] = {}
        self._said: dict[Directory, None] = {}

    def claim(self, partition: "Partition", dirt: Dirt) -> None:
        """It begins, and until `give_back` others do not count on this room."""
        self._claims[partition] = bytes_written_max(dirt)
        if partition in self._waiting:
            del self._waiting[partition]
            self._said.pop(partition.directory, None)

    def give_back(self, partition: "Partition") -> None:
        self._claims.pop(partition, None)

    def claimed_bytes(self, directory: "Directory") -> int:
        return sum(size for each, size in self._claims.items() if each.directory is directory)

    def forget(self, partition: "Partition") -> None:
        self._waiting.pop(partition, None)

    def lacks(self, partition: "Partition", dirt: Dirt) -> bool:
        """Too little is free for it, or nobody knows yet how much is."""
        directory, needed = partition.directory, bytes_written_max(dirt)
        if directory.spare_bytes is None:
            return True
        if not directory.refuses_writes:
            promised = self.claimed_bytes(directory) - self._claims.get(partition, 0)
            promised += self._broker.moves.claimed_bytes(directory)
            if needed <= directory.spare_bytes - promised - headroom_bytes(directory):
                return False
        self._waiting[partition] = None
        if directory not in self._said:
            self._said[directory] = None
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
