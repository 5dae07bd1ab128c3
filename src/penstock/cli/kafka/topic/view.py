"""Lines of kafka-topics --describe: one per topic and one per partition.

Fields are `Name: value` with tabs between, as scripts split them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.admin.cluster_values import Reassignment
from penstock.client.values import ConfigValue, PartitionDescription, TopicDescription
from penstock.model import ZERO_ID, TopicPartition, id_to_text

DEFAULT_CONFIG = 5  # where a value comes from, in DescribeConfigs
MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The filters of one --describe. `partitions` is the option that selects partitions, such as
    under-replicated ones; None selects all. `live` are the brokers online."""

    partitions: str | None
    overrides_only: bool
    live: frozenset[int]


def describe_lines(
    topic: TopicDescription,
    configs: Sequence[ConfigValue],
    moving: Mapping[TopicPartition, Reassignment],
    report: TopicReport,
) -> Iterator[str]:
    own = [each for each in configs if each.source != DEFAULT_CONFIG]
    if report.partitions is None and (own or not report.overrides_only):
        yield _topic_line(topic, own, moving)
    if report.overrides_only:
        return
    min_isr = next((int(each.value or 1) for each in configs if each.name == MIN_ISR), 1)
    for partition in topic.partitions:
        move = moving.get(TopicPartition(topic.name, partition.partition))
        if _wanted(partition, move, min_isr, report):
            yield _partition_line(topic.name, partition, move)


def _topic_line(
    topic: TopicDescription,
    own: Sequence[ConfigValue],
    moving: Mapping[TopicPartition, Reassignment],
) -> str:
    factor = 0
    if topic.partitions:
        first = topic.partitions[0]
        factor = _factor(first, moving.get(TopicPartition(topic.name, first.partition)))
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id != ZERO_ID:
        fields.append(f"TopicId: {id_to_text(topic.topic_id)}")
    fields += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {factor}",
        "Configs: " + ",".join(f"{each.name}={each.value}" for each in own),
    ]
    return "\t".join(fields)


def _partition_line(topic: str, partition: PartitionDescription, move: Reassignment | None) -> str:
    fields = [
        "",
        f"Topic: {topic}",
        f"Partition: {partition.partition}",
        f"Leader: {partition.leader if partition.leader >= 0 else 'none'}",
        f"Replicas: {_ids(partition.replicas)}",
        f"Isr: {_ids(partition.in_sync)}",
    ]
    if move is not None:
        fields += [f"Adding Replicas: {_ids(move.adding)}"]
        fields += [f"Removing Replicas: {_ids(move.removing)}"]
    fields += [
        f"Elr: {_ids(partition.eligible_leaders)}",
        f"LastKnownElr: {_ids(partition.last_known_leaders)}",
    ]
    return "\t".join(fields)


def _ids(ids: Iterable[int] | None) -> str:
    """Return ids with commas between; N/A if the server does not report them."""
    return "N/A" if ids is None else ",".join(map(str, ids))


def _factor(partition: PartitionDescription, move: Reassignment | None) -> int:
    """Return the number of replicas without those that are being added."""
    if move is not None and {*move.adding, *move.removing} & {*partition.replicas}:
        return len(move.replicas) - len(move.adding)
    return len(partition.replicas)


def _wanted(
    partition: PartitionDescription, move: Reassignment | None, min_isr: int, report: TopicReport
) -> bool:
    in_sync = len(partition.in_sync)
    match report.partitions:
        case "under-replicated-partitions":
            return _factor(partition, move) > in_sync
        case "unavailable-partitions":
            return partition.leader not in report.live
        case "under-min-isr-partitions":
            return partition.leader < 0 or in_sync < min_isr
        case "at-min-isr-partitions":
            return in_sync == min_isr
        case _:
            return True
