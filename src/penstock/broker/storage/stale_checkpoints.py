"""Partitions that are gone from a directory while its checkpoints may still name them.

Kafka's checkpoints name a partition without its topic id. Entries of a deleted partition would
apply to the next one of the same name, whose records would count as deleted, or as damaged. So no
log is created before every checkpoint of the directory was written without its name.
"""

from penstock.broker.storage.cleaner_offsets import CLEANER_OFFSETS
from penstock.log.checkpoints import RECOVERY_POINTS, START_OFFSETS
from penstock.model import TopicPartition

# The checkpoint of high watermarks is not read.
BELIEVED = (RECOVERY_POINTS, START_OFFSETS, CLEANER_OFFSETS)


class StaleCheckpoints:
    """Deleted partitions of one directory, numbered. A file has the number of its content."""

    def __init__(self) -> None:
        self.count = 0
        self._gone: dict[TopicPartition, int] = {}  # the latest last
        self._written = dict.fromkeys(BELIEVED, 0)

    def __bool__(self) -> bool:
        return bool(self._gone)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._gone

    def add(self, partition: TopicPartition) -> None:
        """Add a deleted partition: content made from now on has no entry of it."""
        self.count += 1
        self._gone.pop(partition, None)
        self._gone[partition] = self.count

    def written(self, name: str, as_of: int) -> None:
        """Note that a file is durable, with the number of its content."""
        if name not in self._written:
            return
        self._written[name] = max(as_of, self._written[name])
        nowhere_from = min(self._written.values())
        for partition, number in list(self._gone.items()):
            if number > nowhere_from:
                return
            del self._gone[partition]
