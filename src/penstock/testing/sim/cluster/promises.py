"""The promises of a cluster as limits of faults: which deaths a seed may hold.

The controller cannot tell a kill from a loss of power, so kills count beside the deaths that lose
records. They count until all in-sync sets are whole again.
"""

from collections.abc import Callable, Iterator

from penstock.controller.image import NO_LEADER, Image, PartitionImage, Topic
from penstock.model import TopicPartition
from penstock.testing.sim.cluster.sim_cluster import SimCluster


class ReplicaSets:
    """The in-sync sets of an image, beside the replicas that can be in them."""

    def __init__(self, cluster: SimCluster, *, loses_disks: bool) -> None:
        """With `loses_disks`, nodes may keep replicas offline whose files are gone."""
        self._cluster = cluster
        self._loses_disks = loses_disks

    def online(self, image: Image, topic: Topic, partition: PartitionImage) -> list[int]:
        """Return the replicas that still have their directories and their files."""
        return [
            each
            for each in partition.replicas
            if each in image.brokers
            and image.brokers[each].has_online_directory(partition.directory_of(each))
            and not self._is_kept_offline(each, topic.topic_id, partition.partition_id)
        ]

    def _is_kept_offline(self, node_id: int, topic_id: bytes, index: int) -> bool:
        """Return whether the last life of a node has found no complete files of a partition."""
        node = self._cluster.nodes[node_id]
        if not self._loses_disks or not node.lives or node.node.broker is None:
            return False
        return node.broker.replicas.is_kept_offline(topic_id, index)

    def is_left_behind(self, image: Image, topic: Topic, partition: PartitionImage) -> bool:
        """Return whether all replicas that may be complete are gone: the others were away when the
        partition was made."""
        complete = {*partition.isr, *partition.eligible_leaders, *partition.last_known_leaders}
        return complete.isdisjoint(self.online(image, topic, partition))

    def is_whole(self, image: Image, topic: Topic, partition: PartitionImage) -> bool:
        """Return whether a partition has a leader, and each replica that can be is in sync. A
        replica without its files stays out of the set."""
        if self._loses_disks and self.is_left_behind(image, topic, partition):
            return True
        online = self.online(image, topic, partition)
        return partition.leader != NO_LEADER and set(partition.isr).issuperset(online)

    def broken(self, image: Image) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        """Yield the partitions whose in-sync sets are not whole."""
        for topic, partition in image.partitions():
            if not self.is_whole(image, topic, partition):
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
