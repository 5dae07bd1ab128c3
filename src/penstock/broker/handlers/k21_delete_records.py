"""DeleteRecords, v0-v2: moves the start of logs forward. Offset -1 means the high watermark."""

from typing import TYPE_CHECKING

from penstock.broker.directory import Directory
from penstock.broker.request import Request
from penstock.errors import KafkaError, OffsetOutOfRange, PolicyViolation
from penstock.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

HIGH_WATERMARK = -1
UNKNOWN = -1


def handle(
    broker: "Broker", _request: Request, message: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    broker.append_now()
    response = DeleteRecordsResponse()
    touched: dict[Directory, None] = {}
    for topic in message.topics:
        results = [_delete(broker, topic.name, each, touched) for each in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    broker.hosting.start_offsets_moved(list(touched))
    return response


def _delete(
    broker: "Broker", topic: str, wanted: DeleteRecordsPartition, touched: dict[Directory, None]
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
        touched[partition.directory] = None
    except KafkaError as error:
        result.error_code = error.code
    return result
