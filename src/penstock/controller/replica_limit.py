"""The limit on replicas of a partition, for nodes that do not copy partitions to each other."""

from collections.abc import Iterable

from penstock.controller.image import PartitionImage
from penstock.controller.settings import ControllerSettings
from penstock.errors import InvalidReplicaAssignment, InvalidReplicationFactor


def check_replicas(settings: ControllerSettings, factor: int) -> None:
    """Raise for a partition with more replicas than the nodes keep."""
    limit = settings.replicas_max
    if limit is not None and factor > limit:
        raise InvalidReplicationFactor(
            f"Replication factor {factor} is not possible: nodes of Penstock do not copy partitions"
            f" to each other yet. Use a replication factor of {limit}. For internal topics that is"
            " offsets.topic.replication.factor and transaction.state.log.replication.factor."
        )


def check_move(
    settings: ControllerSettings, partition: PartitionImage, target: Iterable[int]
) -> None:
    """Raise for a partition that would move to a broker without its records."""
    added = [each for each in target if each not in partition.replicas]
    if settings.replicas_max is not None and added:
        raise InvalidReplicaAssignment(
            f"Partition {partition.partition_id} cannot move to broker {added[0]}: nodes of "
            "Penstock do not copy partitions to each other yet."
        )
