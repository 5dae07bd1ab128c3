"""ListOffsets, v1-v11: offsets by position or by time.

-1 latest (the last stable offset under read_committed), -2 earliest, -3 the largest timestamp,
-4 earliest local (v8+), -5 latest tiered (v9+), -6 earliest pending upload (v11+): without tiering
-4 is the log's start and the last two have no answer. A time gets the first offset at or after it.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import (
    InvalidRequest,
    KafkaError,
    UnsupportedVersion,
)
from penstock.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
READ_COMMITTED = 1
Found = tuple[int, int, int]  # timestamp, offset, leader epoch
NOTHING: Found = (-1, -1, -1)


def handle(broker: "Broker", request: Request, message: ListOffsetsRequest) -> None:
    broker.append_now()
    response = ListOffsetsResponse()
    asked: list[tuple[str, ListOffsetsPartition, ListOffsetsPartitionResponse]] = []
    for topic in message.topics:
        answers = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        times = Counter(each.partition_index for each in topic.partitions)
        for wanted in {each.partition_index: each for each in topic.partitions}.values():
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answers.partitions.append(answer)
            if times[wanted.partition_index] > 1:
                answer.error_code = InvalidRequest.code
            else:
                asked.append((topic.name, wanted, answer))
    left = len(asked)
    if not left:
        request.reply(response)
        return

    def settled() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            request.reply(response)

    committed_only = message.isolation_level == READ_COMMITTED
    for name, wanted, answer in asked:
        _look_up(broker, request, name, wanted, answer, committed_only, settled)


def _look_up(
    broker: "Broker",
    request: Request,
    topic: str,
    wanted: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
    committed_only: bool,
    settled: Callable[[], None],
) -> None:
    def found(result: Found) -> None:
        answer.timestamp, answer.offset, answer.leader_epoch = result
        settled()

    def failed(error: KafkaError) -> None:
        answer.error_code = error.code
        settled()

    def look() -> Found:
        partition = broker.find(topic, wanted.partition_index)
        partition.leader.check_epoch(wanted.current_leader_epoch)
        return _find(partition, wanted.timestamp, request.api_version, committed_only)

    broker.when_warm(look, found, failed)


def _find(partition: "Partition", timestamp: int, version: int, committed_only: bool) -> Found:
    log, leader = partition.log, partition.leader
    if version < FIRST_VERSION.get(timestamp, 0) or timestamp < EARLIEST_PENDING:
        raise UnsupportedVersion
    upper = leader.high_watermark
    if committed_only:
        upper = log.stable_offset(upper)
    match timestamp:
        case -1:
            return -1, upper, leader.epoch
        case -2 | -4:
            return -1, log.start_offset, _start_epoch(partition)
        case -3:
            found = log.max_timestamp()
        case -5 | -6:
            return NOTHING
        case _:
            found = log.offset_for_timestamp(timestamp)
    # What is not committed is not there yet.
    return found if found is not None and found[1] < upper else NOTHING


def _start_epoch(partition: "Partition") -> int:
    """The epoch of the first record, or of the one that will be it."""
    log = partition.log
    if log.start_offset == log.end_offset:
        return partition.leader.epoch
    return log.epochs.at(log.start_offset)
