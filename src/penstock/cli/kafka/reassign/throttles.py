"""Throttles of kafka-reassign-partitions: settings of brokers and topics while replicas move."""

from collections.abc import Collection, Mapping, Sequence

from penstock.cli.connection.results import raise_first
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import Reassignment
from penstock.client.values import ConfigChange, Operation, Resource, ResourceType
from penstock.model import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


def throttle_replicas(
    admin: Admin,
    planned: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    ongoing: Mapping[TopicPartition, Reassignment],
    bytes_per_second: int,
) -> None:
    """Throttle the sending and receiving brokers and replicas."""
    sources: dict[TopicPartition, set[int]] = {}
    targets: dict[TopicPartition, set[int]] = {}
    for partition, move in ongoing.items():
        sources[partition] = {*move.replicas} - {*move.adding}
        targets[partition] = {*move.adding}
    for partition, replicas in planned.items():
        before = sources.setdefault(partition, {*current.get(partition, ())})
        targets[partition] = targets.get(partition, set()) | ({*replicas} - before)
    topics = sorted({each.topic for each in sources})
    changes = {
        Resource(ResourceType.TOPIC, topic): [
            ConfigChange(LEADER_REPLICAS, Operation.SET, _listed(topic, sources)),
            ConfigChange(FOLLOWER_REPLICAS, Operation.SET, _listed(topic, targets)),
        ]
        for topic in topics
    }
    _change(admin, changes)
    brokers = {broker for some in (*sources.values(), *targets.values()) for broker in some}
    rates = [
        ConfigChange(key, Operation.SET, str(bytes_per_second))
        for key in (LEADER_RATE, FOLLOWER_RATE)
    ]
    _change(admin, {Resource(ResourceType.BROKER, str(each)): rates for each in sorted(brokers)})
    print(f"The inter-broker throttle limit was set to {bytes_per_second} B/s")


def _listed(topic: str, replicas: Mapping[TopicPartition, Collection[int]]) -> str:
    return ",".join(
        f"{each.partition}:{broker}"
        for each in sorted(replicas)
        if each.topic == topic
        for broker in sorted(replicas[each])
    )


def throttle_moves(admin: Admin, brokers: Sequence[int], bytes_per_second: int) -> None:
    """Throttle moves between directories of these brokers."""
    change = [ConfigChange(DIRECTORY_RATE, Operation.SET, str(bytes_per_second))]
    _change(admin, {Resource(ResourceType.BROKER, str(each)): change for each in brokers})
    print(f"The replica-alter-dir throttle limit was set to {bytes_per_second} B/s")


def clear_throttles(admin: Admin, planned: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Remove throttles of all brokers, as former sources are unknown, and of the plan's topics."""
    brokers = sorted(each.node_id for each in admin.describe_cluster().brokers)
    topics = sorted({each.topic for each in planned})
    plural = "" if len(brokers) == 1 else "s"
    print(f"Clearing broker-level throttles on broker{plural} {','.join(map(str, brokers))}")
    keys = (LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE)
    gone = [ConfigChange(key, Operation.DELETE) for key in keys]
    _change(admin, {Resource(ResourceType.BROKER, str(each)): gone for each in brokers})
    plural = "" if len(topics) == 1 else "s"
    print(f"Clearing topic-level throttles on topic{plural} {','.join(topics)}")
    gone = [ConfigChange(key, Operation.DELETE) for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]
    _change(admin, {Resource(ResourceType.TOPIC, each): gone for each in topics})


def _change(admin: Admin, changes: Mapping[Resource, Sequence[ConfigChange]]) -> None:
    if not changes:
        return
    raise_first(admin.alter_configs(changes))
