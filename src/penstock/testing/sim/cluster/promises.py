"""The promises of a cluster as limits of faults: which deaths a seed may hold.

The controller cannot tell a kill from a loss of power, so kills count beside the deaths that lose
records. They count until all in-sync sets are whole again.
"""

from collections.abc import Callable, Iterator

from penstock.controller.image import NO_LEADER, Image, PartitionImage
from penstock.model import TopicPartition


def online_replicas(image: Image, partition: PartitionImage) -> list[int]:
    """Return the replicas whose brokers still have their directories."""
    return [
        each
        for each in partition.replicas
        if each in image.brokers
        and image.brokers[each].has_online_directory(partition.directory_of(each))
    ]


def is_left_behind(image: Image, partition: PartitionImage) -> bool:
    """Return whether all replicas that may be complete have lost their directories: the others were
    away when the partition was made."""
    complete = {*partition.isr, *partition.eligible_leaders, *partition.last_known_leaders}
    return complete.isdisjoint(online_replicas(image, partition))


def is_whole(image: Image, partition: PartitionImage) -> bool:
    """Return whether a partition has a leader, and each replica that can be is in sync. A replica
    without its directory stays out of the set."""
    if is_left_behind(image, partition):
        return True
    in_sync = set(partition.isr)
    online = online_replicas(image, partition)
    return partition.leader != NO_LEADER and in_sync.issuperset(online)


def broken_sets(image: Image) -> Iterator[tuple[TopicPartition, PartitionImage]]:
    """Yield the partitions whose in-sync sets are not whole."""
    for topic, partition in image.partitions():
        if not is_whole(image, partition):
            yield TopicPartition(topic.name, partition.partition_id), partition


class UncleanDeaths:
    """The deaths without a clean stop since all in-sync sets were whole."""

    def __init__(self, deaths_max: int | None, all_whole: Callable[[], bool]) -> None:
        """Count up to `deaths_max`, which is None if any number keeps all acknowledged records."""
        self._deaths_max = deaths_max
        self._all_whole = all_whole
        self._count = 0

    @property
    def is_limited(self) -> bool:
        return self._deaths_max is not None

    def try_one(self) -> bool:
        """Count one death more; return False if the promises do not cover it."""
        if self._deaths_max is None:
            return True
        if self._count and self._all_whole():
            self._count = 0
        if self._count >= self._deaths_max:
            return False
        self._count += 1
        return True
