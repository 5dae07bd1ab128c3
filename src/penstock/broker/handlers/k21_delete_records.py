"""DeleteRecords, v0-v2: moves the start of logs forward. Offset -1 means the high watermark.

The answer waits until the new starts are durable; where the disk has no room for that, it is
KAFKA_STORAGE_ERROR, and the request can be sent again.
"""

from typing import TYPE_CHECKING

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

HIGH_WATERMARK = -1
UNKNOWN = -1


def handle(broker: "Broker", request: ClientRequest, message: DeleteRecordsRequest) -> None:
    broker.append_now()
    response = DeleteRecordsResponse()
    moved: dict[LogDirectory, list[DeleteRecordsPartitionResult]] = {}
    for topic in message.topics:
        results = [_delete(broker, topic.name, each, moved) for each in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    left = len(moved)

    def stored(directory: LogDirectory, failure: DiskFailed | None) -> None:
        """A kill brings back what is not in the checkpoint: only what is in there is answered."""
        nonlocal left
        left -= 1
        for result in moved[directory] if failure is not None else ():
            result.error_code = KafkaStorageError.code
            result.low_watermark = UNKNOWN
        if not left:
            request.reply(response)

    if moved:
        broker.replicas.start_offsets_moved(list(moved), stored)
    else:
        request.reply(response)


def _delete(
    broker: "Broker",
    topic: str,
    wanted: DeleteRecordsPartition,
    moved: dict[LogDirectory, list[DeleteRecordsPartitionResult]],
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
        partition.delete_before(offset)
        result.low_watermark = partition.log.start_offset
        moved.setdefault(partition.directory, []).append(result)
    except KafkaError as error:
        result.error_code = error.code
    return result
