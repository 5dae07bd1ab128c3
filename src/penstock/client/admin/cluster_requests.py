"""Requests about the cluster: its brokers, fenced ones too, unregistering a broker, elections."""

from collections.abc import Sequence

from penstock.client.admin.cluster_values import Election
from penstock.client.transport.connection import Connection
from penstock.client.values import Broker, ClusterDescription
from penstock.errors import KafkaError, UnsupportedVersion, error_of, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k43_elect_leaders, k60_describe_cluster, k64_unregister_broker

FENCED_FROM = 2  # the version of DescribeCluster with fenced brokers


def ask_cluster_with_fenced(connection: Connection) -> ClusterDescription:
    wire = k60_describe_cluster
    request = wire.DescribeClusterRequest(include_fenced_brokers=True)
    if connection.version_for(request) < FENCED_FROM:
        raise UnsupportedVersion(f"the server at {connection} does not tell of fenced brokers")
    answer = connection.request(request, wire.DescribeClusterResponse)
    if answer.error_code:
        raise from_code(answer.error_code, answer.error_message)
    brokers = sorted(
        Broker(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
        for each in answer.brokers
    )
    return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(brokers))


def ask_unregister(connection: Connection, broker_id: int) -> KafkaError | None:
    wire = k64_unregister_broker
    request = wire.UnregisterBrokerRequest(broker_id=broker_id)
    answer = connection.request(request, wire.UnregisterBrokerResponse)
    return error_of(answer.error_code, answer.error_message)


ELECTION_TYPES_FROM = 1  # the version of ElectLeaders with unclean elections


def ask_election(
    connection: Connection,
    partitions: Sequence[TopicPartition] | None,
    election: Election,
    timeout_ms: int,
) -> dict[TopicPartition, KafkaError | None]:
    """Elect leaders. Without partitions (None) the result has those that needed an election."""
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
        TopicPartition(told.topic, each.partition_id): error_of(each.error_code, each.error_message)
        for told in answer.replica_election_results
        for each in told.partition_result
    }
