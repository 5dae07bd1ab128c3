"""Partitions that are gone from a directory while its checkpoints may still name them.

Kafka's checkpoints know a partition by its name alone: what they say of a deleted one would be
believed of the next that has its name, and its records would be taken for deleted, or for damaged.
So no log gets a name in a directory before every such file there was written without it.
"""

from penstock.broker.cleaning.offsets import CLEANER_OFFSETS
from penstock.log.checkpoints import RECOVERY_POINTS, START_OFFSETS
from penstock.model import TopicPartition

# That of the high watermarks is only written: nothing here believes it.
BELIEVED = (RECOVERY_POINTS, START_OFFSETS, CLEANER_OFFSETS)


class Departures:
    """Of one directory. Each is numbered; a file is as of the last one that its content knew."""

    def __init__(self) -> None:
        self.count = 0
        self._gone: dict[TopicPartition, int] = {}  # the latest last
        self._written = dict.fromkeys(BELIEVED, 0)

    def __bool__(self) -> bool:
        return bool(self._gone)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._gone

    def add(self, partition: TopicPartition) -> None:
        """It is in none of the contents that are made from now on."""
        self.count += 1
        self._gone.pop(partition, None)
        self._gone[partition] = self.count

    def written(self, name: str, as_of: int) -> None:
        """That file is durable, and was made when so many had gone."""
        if name not in self._written:
            return
        self._written[name] = max(as_of, self._written[name])
        nowhere_from = min(self._written.values())
        for partition, number in list(self._gone.items()):
            if number > nowhere_from:
                return
            del self._gone[partition]
