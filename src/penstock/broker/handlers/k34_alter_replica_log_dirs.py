"""AlterReplicaLogDirs, v1-v2: moves partitions of this node to other log directories.

The answer comes when a move is accepted, not when the move ends: DescribeLogDirs shows the
progress. Other than in Kafka, a partition that does not fit into the target gets
KAFKA_STORAGE_ERROR. The response has no error message: the node's log has the reason.
"""

import logging
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.errors import (
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    LogDirNotFound,
    ReplicaNotAvailable,
    UnknownTopicOrPartition,
)
from penstock.model import CLUSTER_METADATA_TOPIC
from penstock.wire.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.wire.structures import PartitionError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.moves")

FILE_NAME_BYTES_MAX = 255
FUTURE_SUFFIX_BYTES = len(".") + 32 + len("-future")  # of the directory that a move fills


def denied(message: AlterReplicaLogDirsRequest, error: KafkaError) -> AlterReplicaLogDirsResponse:
    """Return the error for each partition."""
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for wanted in message.dirs:
        for topic in wanted.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            result.partitions += [
                PartitionError(partition_index=index, error_code=error.code)
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def handle(
    broker: "Broker", _request: ClientRequest, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for wanted in message.dirs:
        for topic in wanted.topics:
            result = results.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name)
            )
            for index in topic.partitions:
                code = _move(broker, wanted.path, topic.name, index)
                result.partitions.append(PartitionError(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: "Broker", path: str, topic: str, index: int) -> int:
    """Request a move; return 0 or the code of the error, since the response has no message."""
    try:
        if topic == CLUSTER_METADATA_TOPIC:
            raise InvalidTopic("the metadata log stays where it is")
        if len(f"{topic}-{index}") + FUTURE_SUFFIX_BYTES > FILE_NAME_BYTES_MAX:
            raise InvalidTopic("The topic name is too long.")
        target = broker.replicas.directory_at(path)
        if target is None:
            raise LogDirNotFound(f"{path} is none of this node's log.dirs")
        partition = broker.replicas.by_name.get(topic, {}).get(index)
        if partition is None:
            known = broker.image.topics.get(topic)
            if known is None or index not in known.partitions:
                raise UnknownTopicOrPartition(f"there is no {topic}-{index}")
            raise ReplicaNotAvailable(f"this node does not host {topic}-{index}")
        if target.failed or partition.directory.failed:
            raise KafkaStorageError("a log directory is offline")
        broker.moves.check_room(partition, target)
    except KafkaError as error:
        if isinstance(error, KafkaStorageError):
            log.warning("%s-%d does not move to %s: %s", topic, index, path, error.message)
        return error.code
    broker.moves.ask(partition, target)
    return 0
