"""An image written out as records, in the order in which Kafka writes a snapshot."""

from collections.abc import Iterator
from typing import Any

from penstock.controller.image import BrokerImage, ControllerNode, Image, PartitionImage, Topic
from penstock.controller.records import METADATA_VERSION, UnreadRecord
from penstock.wire.records.metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from penstock.wire.structures import RegisteredFeature, RegisteredListener


def image_records(image: Image) -> Iterator[Any]:
    """Yield the records that make `image` out of nothing; metadata.version comes first and governs
    the rest."""
    names = sorted(image.features, key=lambda name: (name != METADATA_VERSION, name))
    for name in names:
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield broker_record(broker)
    for controller in image.controllers.values():
        yield controller_record(controller)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partitions.values():
            yield partition_record(topic, partition)
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource.kind, resource_name=resource.name, name=name, value=value
            )
    yield from image.client_quotas.values()
    ids = image.producer_ids
    if ids.next_producer_id:
        yield ProducerIdsRecord(
            broker_id=ids.broker_id,
            broker_epoch=ids.broker_epoch,
            next_producer_id=ids.next_producer_id,
        )
    yield from image.acls.values()
    yield from image.scram.values()
    yield from image.delegation_tokens.values()
    for raw in image.unread:
        yield UnreadRecord(raw)


def partition_record(topic: Topic, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition.partition_id,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leaders) or None,
        last_known_elr=list(partition.last_known_leaders) or None,
    )


def broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=_listeners(broker),
        features=_features(broker),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if broker.cordoned is None else list(broker.cordoned),
    )


def controller_record(controller: ControllerNode) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=_listeners(controller),
        features=_features(controller),
    )


def _listeners(node: BrokerImage | ControllerNode) -> list[RegisteredListener]:
    return [
        RegisteredListener(name=name, host=host, port=port, security_protocol=protocol)
        for name, host, port, protocol in node.endpoints
    ]


def _features(node: BrokerImage | ControllerNode) -> list[RegisteredFeature]:
    return [
        RegisteredFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in node.features.items()
    ]
