"""DeleteRecords, v0-v2: moves the start of logs forward. Offset -1 means the high watermark.

A log starts at its new offset once a checkpoint names that durably. Where the disk has no room for
it, the answer is KAFKA_STORAGE_ERROR, nothing has changed, and the request can be sent again.
"""

from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.request import ClientRequest
from penstock.broker.storage.log_dir import LogDirectory
from penstock.errors import KafkaError, KafkaStorageError, OffsetOutOfRange, PolicyViolation
from penstock.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions.partition import Partition

HIGH_WATERMARK = -1
UNKNOWN = -1


class _Deletion(NamedTuple):
    """A deletion that waits for its checkpoint, and its part of the answer."""

    partition: "Partition"
    offset: int
    result: DeleteRecordsPartitionResult

    def end(self, failure: DiskFailed | None) -> None:
        self.partition.end_deletion(self.offset, durable=failure is None)
        if failure is None:
            self.result.low_watermark = self.partition.log.start_offset
        else:
            self.result.error_code = KafkaStorageError.code


def handle(broker: "Broker", request: ClientRequest, message: DeleteRecordsRequest) -> None:
    broker.append_now()
    response = DeleteRecordsResponse()
    begun: dict[LogDirectory, list[_Deletion]] = {}
    for topic in message.topics:
        results = [_delete(broker, topic.name, each, begun) for each in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    left = len(begun)

    def stored(directory: LogDirectory, failure: DiskFailed | None) -> None:
        nonlocal left
        left -= 1
        for deletion in begun[directory]:
            deletion.end(failure)
        if failure is not None:
            # A newer checkpoint that is under way may name these offsets too.
            broker.replicas.start_offsets_moved([directory])
        if not left:
            request.reply(response)

    if begun:
        broker.replicas.start_offsets_moved(list(begun), stored)
    else:
        request.reply(response)


def _delete(
    broker: "Broker",
    topic: str,
    wanted: DeleteRecordsPartition,
    begun: dict[LogDirectory, list[_Deletion]],
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=UNKNOWN
    )
    try:
        partition = broker.find(topic, wanted.partition_index)
        if not partition.settings.log.delete:
            raise PolicyViolation("records of a topic that is only compacted cannot be deleted")
        high_watermark = partition.leader.high_watermark
        offset = high_watermark if wanted.offset == HIGH_WATERMARK else wanted.offset
        if not 0 <= offset <= high_watermark:
            raise OffsetOutOfRange(f"{partition} can be deleted up to {high_watermark}")
        partition.begin_deletion(offset)
        begun.setdefault(partition.directory, []).append(_Deletion(partition, offset, result))
    except KafkaError as error:
        result.error_code = error.code
    return result
