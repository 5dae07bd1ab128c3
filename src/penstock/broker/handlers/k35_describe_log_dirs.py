"""DescribeLogDirs, v1-v5: partitions in each log directory.  v4: total and usable bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.broker.storage.log_dir import LogDirectory
from penstock.errors import KafkaStorageError
from penstock.wire.messages.k35_describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.world import DiskFailed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

PARTITIONS_PER_SLICE = 200
TOPICS_PER_SLICE = 1_000
INDEXES_PER_SLICE = 5_000


def handle(
    broker: "Broker", _request: ClientRequest, message: DescribeLogDirsRequest
) -> Slices[DescribeLogDirsResponse]:
    wanted: dict[str, set[int]] | None = None
    if message.topics is not None:
        wanted = yield from _hosted_of(broker, message.topics)
    response = DescribeLogDirsResponse()
    for directory in broker.replicas.directories:
        response.results.append((yield from _describe(broker, directory, wanted)))
    return response


def _hosted_of(
    broker: "Broker", topics: Sequence[DescribableLogDirTopic]
) -> Slices[dict[str, set[int]]]:
    """Return the partitions of this node among these."""
    wanted: dict[str, set[int]] = {}
    by_name = broker.replicas.by_name
    for number, topic in enumerate(topics):
        if number % TOPICS_PER_SLICE == TOPICS_PER_SLICE - 1:
            yield None
        if topic.topic not in by_name:
            continue
        indexes = wanted.setdefault(topic.topic, set())
        for start in range(0, len(topic.partitions), INDEXES_PER_SLICE):
            some = topic.partitions[start : start + INDEXES_PER_SLICE]
            indexes.update(by_name.get(topic.topic, {}).keys() & some)
            yield None
    return wanted


def _describe(
    broker: "Broker", directory: LogDirectory, wanted: dict[str, set[int]] | None
) -> Slices[DescribeLogDirsResult]:
    result = DescribeLogDirsResult(log_dir=directory.disk.root)
    if directory.failed:
        result.error_code = KafkaStorageError.code
        return result
    try:
        result.total_bytes = directory.disk.total_bytes()
        result.usable_bytes = directory.disk.free_bytes()
    except DiskFailed as failure:
        directory.take_offline(failure)
        result.error_code = KafkaStorageError.code
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    for place, partition in enumerate(list(directory.partitions)):
        if place % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
            yield None
        if wanted is not None and partition.index not in wanted.get(partition.topic, ()):
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        lag = max(0, partition.leader.high_watermark - partition.log.end_offset)
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size,
                offset_lag=lag,
            )
        )
    for move in broker.moves.into(directory):
        partition = move.partition
        if wanted is not None and partition.index not in wanted.get(partition.topic, ()):
            continue
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=move.copy.copied_bytes,
                offset_lag=max(0, partition.log.end_offset - move.copy.end_offset),
                is_future_key=True,
            )
        )
    result.topics = list(topics.values())
    return result
