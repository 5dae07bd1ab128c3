"""Log directories of brokers: their replicas, and moves of replicas within one broker."""

from collections.abc import Mapping, Sequence

from penstock.client.admin.cluster_values import LogDir, Replica, ReplicaLog
from penstock.client.admin.part import AdminPart, Pair, partitions_of
from penstock.client.cluster.limits import limited
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.errors import BrokerNotAvailable, KafkaError, UnknownServerError, error_of, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k34_alter_replica_log_dirs, k35_describe_log_dirs


class LogDirs(AdminPart):
    """Log directories, as each broker knows its own: `Admin.log_dirs`."""

    @limited
    def describe(
        self,
        brokers: Sequence[int] | None = None,
        partitions: Sequence[Pair] | None = None,
    ) -> dict[int, dict[str, LogDir | KafkaError] | KafkaError]:
        """Return the directories of each broker by path, with all replicas or those of
        `partitions`."""
        named = None if partitions is None else partitions_of(partitions)
        nodes = self._routes.nodes
        nodes.refresh()
        asked = [each.node_id for each in nodes.brokers] if brokers is None else brokers
        found: dict[int, dict[str, LogDir | KafkaError] | KafkaError] = {}
        for broker in asked:
            try:
                found[broker] = _ask_describe(nodes.node(broker), named)
            except NotAuthenticated:
                raise
            except CannotReach as problem:
                found[broker] = BrokerNotAvailable(str(problem))
            except BrokerNotAvailable as missing:
                found[broker] = missing
        return found

    @limited
    def alter(self, targets: Mapping[Replica, str]) -> dict[Replica, KafkaError | None]:
        """Move replicas to directories of their brokers.

        Return when the brokers have accepted the moves; `describe` shows their progress.
        """
        by_broker: dict[int, dict[TopicPartition, str]] = {}
        for replica, path in targets.items():
            mine = by_broker.setdefault(replica.broker, {})
            mine[TopicPartition(replica.topic, replica.partition)] = path
        found: dict[Replica, KafkaError | None] = {}
        for broker, mine in by_broker.items():
            results: Mapping[TopicPartition, KafkaError | None]
            try:
                results = _ask_alter(self._routes.nodes.node(broker), mine)
            except BrokerNotAvailable as missing:
                results = dict.fromkeys(mine, missing)
            silent = UnknownServerError("the server did not answer for it")
            for each in mine:
                found[Replica(each.topic, each.partition, broker)] = results.get(each, silent)
        return {replica: found[replica] for replica in targets}


def _ask_describe(
    connection: Connection, partitions: Sequence[TopicPartition] | None
) -> dict[str, LogDir | KafkaError] | KafkaError:
    wire = k35_describe_log_dirs
    topics: dict[str, k35_describe_log_dirs.DescribableLogDirTopic] = {}
    for topic, partition in partitions or ():
        named = topics.setdefault(topic, wire.DescribableLogDirTopic(topic=topic))
        named.partitions.append(partition)
    request = wire.DescribeLogDirsRequest(
        topics=None if partitions is None else list(topics.values())
    )
    answer = connection.request(request, wire.DescribeLogDirsResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    return {each.log_dir: error_of(each.error_code) or _directory(each) for each in answer.results}


def _directory(told: k35_describe_log_dirs.DescribeLogDirsResult) -> LogDir:
    return LogDir(
        told.log_dir,
        told.total_bytes if told.total_bytes >= 0 else None,
        told.usable_bytes if told.usable_bytes >= 0 else None,
        told.is_cordoned,
        {
            TopicPartition(topic.name, each.partition_index): ReplicaLog(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in told.topics
            for each in topic.partitions
        },
    )


def _ask_alter(
    connection: Connection, targets: Mapping[TopicPartition, str]
) -> dict[TopicPartition, KafkaError | None]:
    wire = k34_alter_replica_log_dirs
    paths: dict[str, dict[str, k34_alter_replica_log_dirs.AlterReplicaLogDirTopic]] = {}
    for (topic, partition), path in targets.items():
        topics = paths.setdefault(path, {})
        named = topics.setdefault(topic, wire.AlterReplicaLogDirTopic(name=topic))
        named.partitions.append(partition)
    request = wire.AlterReplicaLogDirsRequest(
        dirs=[
            wire.AlterReplicaLogDir(path=path, topics=list(topics.values()))
            for path, topics in paths.items()
        ]
    )
    answer = connection.request(request, wire.AlterReplicaLogDirsResponse)
    return {
        TopicPartition(told.topic_name, each.partition_index): error_of(each.error_code)
        for told in answer.results
        for each in told.partitions
    }
