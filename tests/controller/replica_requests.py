"""Requests of brokers about the replicas of `orders`, as leaders and followers send them."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller_bench import Bench

from penstock.controller.image import PartitionImage
from penstock.wire.messages import k56_alter_partition as k56
from penstock.wire.messages import k73_assign_replicas_to_dirs as k73


def partition_of(bench: Bench, index: int = 0, name: str = "orders") -> PartitionImage:
    return bench.image.topics[name].partitions[index]


def fence(bench: Bench, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        epoch = bench.image.brokers[broker_id].epoch
        assert bench.beat(broker_id, epoch, want_fence=True).is_fenced


def unfence(bench: Bench, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        assert not bench.beat(broker_id, bench.image.brokers[broker_id].epoch).is_fenced


def change_request(
    bench: Bench,
    isr: Sequence[int],
    *,
    index: int = 0,
    name: str = "orders",
    leader: int | None = None,
    epochs: Mapping[int, int] | None = None,
    version: int = 3,
    **fields: Any,
) -> k56.AlterPartitionRequest:
    """Return the request of the leader for another in-sync set, as the image says it should be.

    `epochs` are broker epochs that the leader believes in place of the registered ones.
    """
    topic = bench.image.topics[name]
    partition = topic.partitions[index]
    brokers = bench.image.brokers
    believed = {**{each: broker.epoch for each, broker in brokers.items()}, **(epochs or {})}
    asked = k56.RequestPartitionData(
        partition_index=index,
        **{
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            **fields,
        },
    )
    if version >= 3:
        asked.new_isr_with_epochs = [
            k56.BrokerState(broker_id=each, broker_epoch=believed.get(each, -1)) for each in isr
        ]
    else:
        asked.new_isr = list(isr)
    broker_id = partition.leader if leader is None else leader
    return k56.AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=brokers[broker_id].epoch if broker_id in brokers else -1,
        topics=[k56.RequestTopicData(topic_id=topic.topic_id, partitions=[asked])],
    )


def alter_in_sync_set(
    bench: Bench, isr: Sequence[int], *, version: int = 3, **fields: Any
) -> k56.ResponsePartitionData:
    """Ask for another in-sync set; return the answer for the partition."""
    request = change_request(bench, isr, version=version, **fields)
    reply = bench.ask(request, version)
    assert reply.error_code == 0
    [topic] = reply.topics
    [answer] = topic.partitions
    assert isinstance(answer, k56.ResponsePartitionData)
    return answer


def assignment_request(
    bench: Bench, broker_id: int, directory: bytes, *indexes: int, name: str = "orders"
) -> k73.AssignReplicasToDirsRequest:
    topic = k73.RequestTopicData(
        topic_id=bench.image.topics[name].topic_id,
        partitions=[k73.RequestPartitionData(partition_index=each) for each in indexes or (0,)],
    )
    return k73.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=bench.image.brokers[broker_id].epoch,
        directories=[k73.RequestDirectoryData(id=directory, topics=[topic])],
    )


def assign_directory(bench: Bench, broker_id: int, directory: bytes, *indexes: int) -> list[int]:
    """Report the directory of replicas; return the error code of each."""
    reply = bench.ask(assignment_request(bench, broker_id, directory, *indexes))
    assert reply.error_code == 0
    [answered] = reply.directories
    assert answered.id == directory
    [topic] = answered.topics
    return [each.error_code for each in topic.partitions]
