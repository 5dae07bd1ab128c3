"""DeleteRecords, v0-v2: moves the start of logs forward. Offset -1 means the high watermark.

A log starts at its new offset once a checkpoint names that durably. Where the disk has no room for
it, the answer is KAFKA_STORAGE_ERROR, nothing has changed, and the request can be sent again. The
answer waits until every live replica has deleted the records, or for `timeout_ms`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.partitions.partition import unavailable_error
from penstock.broker.request import ClientRequest
from penstock.broker.storage.log_dir import LogDirectory
from penstock.errors import (
    KafkaError,
    KafkaStorageError,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from penstock.security.permissions import DELETE_TOPIC
from penstock.wire.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.world import DiskFailed, Timer, Timers

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions.partition import Partition

HIGH_WATERMARK = -1
UNKNOWN = -1


class _Deletion:
    """A deletion that waits for its checkpoint, then for the followers (partition.StartWaiter)."""

    __slots__ = ("_ended", "_timer", "offset", "partition", "result")

    def __init__(
        self, partition: "Partition", offset: int, result: DeleteRecordsPartitionResult
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.result = result
        self._timer: Timer | None = None
        self._ended: Callable[[], None] = lambda: None

    def stored(self, failure: DiskFailed | None) -> bool:
        """Note the checkpoint. Return whether the deletion is over."""
        self.partition.end_deletion(self.offset, durable=failure is None)
        if failure is not None:
            self.result.error_code = KafkaStorageError.code
            return True
        return self._judge()

    def _judge(self) -> bool:
        """Return whether the deletion is over: every live replica has it, or the partition is led
        here no more."""
        partition, result = self.partition, self.result
        if (gone := unavailable_error(partition)) is not None:
            result.error_code = gone.code
            return True
        result.low_watermark = partition.low_watermark
        return result.low_watermark >= self.offset

    def wait(self, timers: Timers, deadline_ms: float, ended: Callable[[], None]) -> None:
        """Wait for the followers, until a deadline."""
        self._ended = ended
        self.partition.start_waiters[self] = None
        self._timer = timers.at(deadline_ms, self._late)

    def look(self) -> None:
        if self._judge():
            self._end()

    def _late(self) -> None:
        self.result.error_code = RequestTimedOut.code
        self._end()

    def _end(self) -> None:
        self.partition.start_waiters.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self._ended()


def handle(broker: "Broker", request: ClientRequest, message: DeleteRecordsRequest) -> None:
    broker.append_now()
    response = DeleteRecordsResponse()
    begun: dict[LogDirectory, list[_Deletion]] = {}
    for topic in message.topics:
        if broker.access.allows(request, DELETE_TOPIC, topic.name):
            results = [_delete(broker, topic.name, each, begun) for each in topic.partitions]
        else:
            results = [
                DeleteRecordsPartitionResult(
                    partition_index=each.partition_index,
                    low_watermark=UNKNOWN,
                    error_code=TopicAuthorizationFailed.code,
                )
                for each in topic.partitions
            ]
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    left = sum(len(each) for each in begun.values())
    deadline_ms = broker.world.clock.mono_ms() + message.timeout_ms

    def ended() -> None:
        nonlocal left
        left -= 1
        if not left:
            request.run(lambda: request.reply(response))

    def stored(directory: LogDirectory, failure: DiskFailed | None) -> None:
        for deletion in begun[directory]:
            if deletion.stored(failure):
                ended()
            else:
                deletion.wait(broker.world.timers, deadline_ms, ended)
        if failure is not None:
            # A newer checkpoint that is under way may name these offsets too.
            broker.replicas.start_offsets_moved([directory])

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
