"""AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858).

A replica in an offline directory leaves the in-sync set and leads nothing. Offline are the LOST
directory and directories that the registration of the broker does not name.
"""

from dataclasses import replace

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.delta import merge
from penstock.controller.elections import Electorate, LeaderElection, change_partition
from penstock.controller.image import BrokerImage, Image, PartitionImage
from penstock.controller.records import DIRECTORIES_SINCE
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome
from penstock.errors import (
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from penstock.wire.messages import k73_assign_replicas_to_dirs as k73
from penstock.wire.records.metadata import PartitionChangeRecord
from penstock.wire.structures import PartitionError


class ReplicaDirectoryRequests:
    """Decides about directories of replicas; holds the changes of one request until they are
    replayed."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._image = image
        self._settings = settings
        self._records: list[PartitionChangeRecord] = []
        # A partition that the request names again is judged after its first change.
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}

    def assign(self, request: k73.AssignReplicasToDirsRequest) -> Outcome:
        if self._image.metadata_version < DIRECTORIES_SINCE:
            raise UnsupportedVersion("Directory assignment is not supported yet.")
        broker = check_broker_epoch(self._image, request.broker_id, request.broker_epoch)
        reply = k73.AssignReplicasToDirsResponse()
        for asked in request.directories:
            electorate = assignment_electorate(self._image, self._settings, broker, asked.id)
            topics = [
                k73.ResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=[
                        PartitionError(
                            partition_index=each.partition_index,
                            error_code=self._assign_one(
                                electorate, broker, asked.id, topic.topic_id, each.partition_index
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in asked.topics
            ]
            reply.directories.append(k73.ResponseDirectoryData(id=asked.id, topics=topics))
        return Outcome(self._records, reply)

    def _assign_one(
        self,
        electorate: Electorate,
        broker: BrokerImage,
        directory: bytes,
        topic_id: bytes,
        index: int,
    ) -> int:
        """Assign one replica; return the error code of its answer."""
        key = (topic_id, index)
        try:
            topic = self._image.topic(topic_id)
            if topic is None:
                raise UnknownTopicId
            partition = self._changed.get(key) or topic.partitions.get(index)
            if partition is None:
                raise UnknownTopicOrPartition
            if broker.broker_id not in partition.replicas:
                raise NotLeaderOrFollower
        except KafkaError as error:
            return error.code
        wanted = with_directory(partition, broker.broker_id, directory)
        record = change_partition(electorate, topic, partition, wanted)
        if record is not None:
            self._records.append(record)
            self._changed[key] = merge(partition, record)
        return 0


def assignment_electorate(
    image: Image, settings: ControllerSettings, broker: BrokerImage, directory: bytes
) -> Electorate:
    """Return the electorate of partitions that the broker puts into a directory: without the
    broker if the directory is offline."""
    if broker.has_online_directory(directory):
        return Electorate(image, settings, election=LeaderElection.CLEAN)
    return Electorate(image, settings, removed=broker.broker_id)


def with_directory(partition: PartitionImage, broker_id: int, directory: bytes) -> PartitionImage:
    """Return the partition with another directory for the replica of a broker."""
    directories = tuple(
        directory if each == broker_id else partition.directory_of(each)
        for each in partition.replicas
    )
    return replace(partition, directories=directories)
