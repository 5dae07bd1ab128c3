"""Leaderships of a hosted partition, as the image would tell them."""

from penstock.broker.partitions.partition import Partition
from penstock.controller.image import PartitionImage


def image_of(
    partition: Partition, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] | None = None
) -> PartitionImage:
    """Return the next image of a partition that its node leads."""
    return PartitionImage(
        partition_id=partition.index,
        replicas=isr if replicas is None else replicas,
        isr=isr,
        leader=partition.leader.node_id,
        leader_epoch=epoch,
        partition_epoch=partition.leader.partition_epoch + 1,
    )


def lead(
    partition: Partition, epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...] | None = None
) -> None:
    partition.lead(image_of(partition, epoch, isr, replicas), 0.0)
