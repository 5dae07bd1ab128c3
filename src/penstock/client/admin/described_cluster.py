"""The cluster: its brokers, also those that are fenced, and forgetting one of them."""

from penstock.client.transport.connection import Connection
from penstock.client.values import Broker, ClusterDescription
from penstock.errors import KafkaError, UnsupportedVersion, from_code
from penstock.wire.messages import k60_describe_cluster, k64_unregister_broker

FENCED_FROM = 2  # the version of DescribeCluster that tells of fenced brokers


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
    return from_code(answer.error_code, answer.error_message) if answer.error_code else None
