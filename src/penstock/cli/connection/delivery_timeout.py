"""Reasons why records were not written in time.

librdkafka retries rejected records until delivery.timeout.ms and then reports the timeout only. So
the command asks the cluster for the reason afterwards.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock.cli.connection.access import Access, connect
from penstock.cli.connection.partition_health import (
    MIN_INSYNC,
    ask_min_insync,
    is_under_min_isr,
)
from penstock.cli.terminal.output import counted, error_text
from penstock.errors import KafkaError, UnknownTopicOrPartition
from penstock.model import TopicPartition

if TYPE_CHECKING:
    from penstock.client.values import TopicDescription

NO_PARTITION = -1  # of a record without a partition


def ask_reason(
    access: Access, topic: str, partitions: Collection[int], acks_all: bool
) -> str | None:
    """Return the likely reason; None if nothing is wrong, or not any more."""
    from penstock.client.transport.connection import CannotReach

    try:
        with connect(access) as admin:
            found = admin.describe_topics([topic])[topic]
            min_insync = ask_min_insync(admin, [topic]).get(topic) if acks_all else None
    except CannotReach as problem:
        return str(problem)
    except KafkaError as rejected:
        return error_text(rejected)
    return reason(topic, found, partitions, min_insync)


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
        if min_insync is not None and is_under_min_isr(each, min_insync):
            replicas = counted(len(each.in_sync), "in-sync replica")
            return (
                f"{where} has {replicas}, fewer than its {MIN_INSYNC}={min_insync}, and so the "
                f"server takes no records with acks=all. `penstock topic describe {name}` shows "
                "which replicas are missing"
            )
    return None
