"""Elections of leaders, on request."""

from collections.abc import Sequence

from penstock.client.admin.cluster_values import Election
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, UnsupportedVersion, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k43_elect_leaders

ELECTION_TYPES_FROM = 1  # the version of ElectLeaders that can ask for an unclean one


def ask_election(
    connection: Connection,
    partitions: Sequence[TopicPartition] | None,
    election: Election,
    timeout_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    """Those asked about; of all (None) only those that needed an election."""
    wire = k43_elect_leaders
    topics: dict[str, k43_elect_leaders.TopicPartitions] = {}
    for topic, partition in partitions or ():
        topics.setdefault(topic, wire.TopicPartitions(topic=topic)).partitions.append(partition)
    request = wire.ElectLeadersRequest(
        election_type=int(election),
        topic_partitions=None if partitions is None else list(topics.values()),
        timeout_ms=timeout_ms,
    )
    version = connection.version_for(request)
    if election is not Election.PREFERRED and version < ELECTION_TYPES_FROM:
        raise UnsupportedVersion(f"the server at {connection} holds preferred elections only")
    answer = connection.request(request, wire.ElectLeadersResponse)
    if answer.error_code and not answer.replica_election_results:
        error = from_code(answer.error_code)
        if partitions is None:
            raise error
        return dict.fromkeys(partitions, error)
    return {
        TopicPartition(told.topic, each.partition_id): from_code(
            each.error_code, each.error_message
        )
        if each.error_code
        else None
        for told in answer.replica_election_results
        for each in told.partition_result
    }
