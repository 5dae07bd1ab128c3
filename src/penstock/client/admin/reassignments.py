"""Reassignments of partitions to other brokers: list, start, cancel."""

from collections.abc import Mapping, Sequence

from penstock.client.admin.cluster_values import Reassignment
from penstock.client.admin.part import AdminPart, ByPair, Pair, by_partition, partitions_of
from penstock.client.cluster.limits import limited
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, UnsupportedVersion, error_of, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import (
    k45_alter_partition_reassignments,
    k46_list_partition_reassignments,
)

# the version of AlterPartitionReassignments that can keep the replication factor
FACTOR_HELD_FROM = 1


class Reassignments(AdminPart):
    """Reassignments, as the controller knows them: `Admin.reassignments`."""

    @limited
    def list_all(
        self, partitions: Sequence[Pair] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the reassignments under way, of these partitions or of all."""
        named = None if partitions is None else partitions_of(partitions)
        found = self._routes.of_controller_as_one(
            lambda connection: _ask_list(connection, named, self._timeout_ms)
        )
        return dict(sorted(found.items()))

    @limited
    def alter(
        self,
        targets: ByPair[Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set the brokers of each partition, the preferred leader first; None cancels a
        reassignment."""
        wanted = by_partition(targets)
        return self._routes.of_controller(
            list(wanted),
            lambda connection: _ask_alter(
                connection, wanted, allow_replication_factor_change, self._timeout_ms
            ),
        )


def _ask_list(
    connection: Connection, partitions: Sequence[TopicPartition] | None, timeout_ms: int
) -> dict[TopicPartition, Reassignment] | KafkaError:
    wire = k46_list_partition_reassignments
    topics: dict[str, k46_list_partition_reassignments.ListPartitionReassignmentsTopics] = {}
    for topic, partition in partitions or ():
        named = topics.setdefault(topic, wire.ListPartitionReassignmentsTopics(name=topic))
        named.partition_indexes.append(partition)
    request = wire.ListPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, topics=None if partitions is None else list(topics.values())
    )
    answer = connection.request(request, wire.ListPartitionReassignmentsResponse)
    if answer.error_code:
        return from_code(answer.error_code, answer.error_message)
    return {
        TopicPartition(told.name, each.partition_index): Reassignment(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for told in answer.topics
        for each in told.partitions
    }


def _ask_alter(
    connection: Connection,
    targets: Mapping[TopicPartition, Sequence[int] | None],
    allow_factor_change: bool,
    timeout_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    wire = k45_alter_partition_reassignments
    topics: dict[str, k45_alter_partition_reassignments.ReassignableTopic] = {}
    for (topic, partition), replicas in targets.items():
        named = topics.setdefault(topic, wire.ReassignableTopic(name=topic))
        named.partitions.append(
            wire.ReassignablePartition(
                partition_index=partition, replicas=None if replicas is None else list(replicas)
            )
        )
    request = wire.AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=allow_factor_change,
        topics=list(topics.values()),
    )
    if not allow_factor_change and connection.version_for(request) < FACTOR_HELD_FROM:
        raise UnsupportedVersion(
            f"the server at {connection} is too old to hold the replication factor fast"
        )
    answer = connection.request(request, wire.AlterPartitionReassignmentsResponse)
    if answer.error_code:
        return dict.fromkeys(targets, from_code(answer.error_code, answer.error_message))
    return {
        TopicPartition(told.name, each.partition_index): error_of(
            each.error_code, each.error_message
        )
        for told in answer.responses
        for each in told.partitions
    }
