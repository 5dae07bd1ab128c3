"""Reasons why records were not written in time.

librdkafka retries rejected records until delivery.timeout.ms and then reports the timeout only. So
the command asks the cluster for the reason afterwards.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.cli.connection.access import Access, connect
from penstock.cli.terminal.output import counted, error_text
from penstock.errors import KafkaError, UnknownTopicOrPartition
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import TopicDescription

MIN_INSYNC = "min.insync.replicas"
NO_PARTITION = -1  # of a record without a partition


def ask_reason(
    access: Access, topic: str, partitions: Collection[int], acks_all: bool
) -> str | None:
    """Return the likely reason; None if nothing is wrong, or not any more."""
    from penstock.client.transport.connection import CannotReach

    try:
        with connect(access) as admin:
            found = admin.describe_topics([topic])[topic]
            min_insync = _min_insync(admin, topic) if acks_all else None
    except CannotReach as problem:
        return str(problem)
    except KafkaError as rejected:
        return error_text(rejected)
    return reason(topic, found, partitions, min_insync)


def _min_insync(admin: "Admin", topic: str) -> int | None:
    from penstock.client.values import Resource, ResourceType

    resource = Resource(ResourceType.TOPIC, topic)
    found = admin.describe_configs([resource], keys=[MIN_INSYNC])[resource]
    if isinstance(found, KafkaError):
        return None
    texts = [each.value or "" for each in found if each.name == MIN_INSYNC]
    return int(texts[0]) if texts and texts[0].isdecimal() else None


def reason(
    name: str,
    topic: "TopicDescription | KafkaError",
    partitions: Collection[int],
    min_insync: int | None,
) -> str | None:
    """Return why these partitions take no records; `min_insync` is given for acks=all."""
    if isinstance(topic, UnknownTopicOrPartition):
        return f"there is no topic {name}; `penstock topic create {name}` makes it"
    if isinstance(topic, KafkaError):
        return error_text(topic)
    for each in topic.partitions:
        if each.partition not in partitions and NO_PARTITION not in partitions:
            continue
        where = TopicPartition(name, each.partition)
        if each.leader < 0:
            brokers = ", ".join(map(str, each.replicas))
            return f"{where} has no leader; it is held by broker {brokers}: is it running?"
        # A server asks for no more replicas than the partition has.
        if min_insync is not None and len(each.in_sync) < min(min_insync, len(each.replicas)):
            replicas = counted(len(each.in_sync), "in-sync replica")
            return (
                f"{where} has {replicas}, fewer than its {MIN_INSYNC}={min_insync}, and so the "
                f"server takes no records with acks=all. `penstock topic describe {name}` shows "
                "which replicas are missing"
            )
    return None
