"""Topics as metadata tells them."""

from collections.abc import Sequence

from penstock.client.cluster.nodes import Nodes
from penstock.client.values import PartitionDescription, TopicDescription
from penstock.errors import KafkaError, UnknownTopicOrPartition, from_code
from penstock.wire.messages.k03_metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)


def ask_all_topics(nodes: Nodes) -> list[TopicDescription]:
    """All topics that have no error, by name."""
    return sorted(
        (each for each in _ask(nodes, None).values() if not isinstance(each, KafkaError)),
        key=lambda topic: topic.name,
    )


def ask_topics(
    nodes: Nodes, names: Sequence[str], *, create: bool = False
) -> dict[str, TopicDescription | KafkaError]:
    """Return what each topic is, or its error. With `create` a broker whose
    auto.create.topics.enable is on makes the missing ones, and shows them a little later."""
    found = _ask(nodes, names, create)
    missing = UnknownTopicOrPartition("the server did not mention it")
    return {name: found.get(name, missing) for name in names}


def _ask(
    nodes: Nodes, names: Sequence[str] | None, create: bool = False
) -> dict[str, TopicDescription | KafkaError]:
    asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = nodes.metadata(MetadataRequest(topics=asked, allow_auto_topic_creation=create))
    if answer.error_code:
        raise from_code(answer.error_code)
    return {
        each.name or "": from_code(each.error_code) if each.error_code else _described(each)
        for each in answer.topics
    }


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id,
                each.leader_epoch,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas),
            )
            for each in partitions
        ),
    )
