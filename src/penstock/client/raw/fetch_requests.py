"""Fetch requests of a reader: without a session, by topic id if the server knows topic ids.

The response is received into one buffer; records are views of it.
"""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.raw.range_progress import RangeProgress
from penstock.client.transport.connection import Connection, PendingResponse
from penstock.model import ZERO_ID, TopicPartition
from penstock.wire.batch import HEADER_BYTES, LENGTH_MIN, LENGTH_OVERHEAD, MAGIC_2, CorruptBatch
from penstock.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

TOPIC_IDS_FROM = 13
WAIT_MS = 250  # for the first byte; a reader of known ranges seldom waits at all
PROBE_WAIT_MS = 5_000
NO_SESSION_EPOCH = -1

# base offset, length, magic, last offset delta; the bytes between are skipped
_STRIDE = struct.Struct(">qi4xb6xi")


@dataclass(frozen=True, slots=True)
class Flight:
    """A Fetch in flight, and its ranges in the order of its partitions."""

    connection: Connection
    pending: PendingResponse
    ranges: list[RangeProgress]
    names: dict[bytes, str]

    def parts_of(self, answer: FetchResponse) -> dict[TopicPartition, PartitionData]:
        return {
            TopicPartition(
                topic.topic or self.names.get(topic.topic_id, ""), part.partition_index
            ): part
            for topic in answer.responses
            for part in topic.partitions
        }


def begin_fetch(
    connection: Connection,
    ranges: Sequence[RangeProgress],
    chunk_bytes: int,
    committed_only: bool,
) -> Flight:
    """Request the next records of these ranges, which have one leader."""
    ordered = _by_topic(ranges)
    request, version, names = _request(connection, ordered, chunk_bytes, committed_only)
    request.min_bytes, request.max_wait_ms = 1, WAIT_MS
    return Flight(connection, connection.begin(request, version), ordered, names)


def probe(
    connection: Connection, progress: RangeProgress, chunk_bytes: int, committed_only: bool
) -> tuple[float, PartitionData | None]:
    """Fetch one range alone, without waiting for records. Return the time that it took."""
    request, version, names = _request(connection, [progress], chunk_bytes, committed_only)
    request.min_bytes, request.max_wait_ms = 0, PROBE_WAIT_MS
    began = time.monotonic()
    flight = Flight(connection, connection.begin(request, version), [progress], names)
    answer = connection.finish(flight.pending, FetchResponse)
    took_ms = (time.monotonic() - began) * 1000
    if answer.error_code or answer.throttle_time_ms:
        return took_ms, None
    return took_ms, flight.parts_of(answer).get(progress.partition)


def next_offset(records: memoryview) -> tuple[int, int] | None:
    """Return the offset after the last whole batch, and the bytes of all whole batches; None
    without one."""
    position, end, following = 0, len(records), -1
    while position + HEADER_BYTES <= end:
        base_offset, length, magic, delta = _STRIDE.unpack_from(records, position)
        if magic != MAGIC_2 or length < LENGTH_MIN:
            raise CorruptBatch(f"no record batch of format 2 at byte {position}")
        if position + LENGTH_OVERHEAD + length > end:
            break
        position += LENGTH_OVERHEAD + length
        following = base_offset + delta + 1
    return (following, position) if position else None


def _by_topic(ranges: Sequence[RangeProgress]) -> list[RangeProgress]:
    """Sort ranges as the request does: topics in the order of their first range."""
    topics: dict[str, list[RangeProgress]] = {}
    for progress in ranges:
        topics.setdefault(progress.partition.topic, []).append(progress)
    return [each for group in topics.values() for each in group]


def _request(
    connection: Connection,
    ranges: Sequence[RangeProgress],
    chunk_bytes: int,
    committed_only: bool,
) -> tuple[FetchRequest, int, dict[bytes, str]]:
    request = FetchRequest(
        max_bytes=chunk_bytes,
        isolation_level=int(committed_only),
        session_epoch=NO_SESSION_EPOCH,
    )
    version = connection.version_for(request)
    names: dict[bytes, str] = {}
    topics: dict[str, FetchTopic] = {}
    for progress in ranges:
        leader = progress.leader
        assert leader is not None, "only ranges with a leader are fetched"
        name, index = progress.partition
        topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=leader.topic_id))
        names[leader.topic_id] = name
        if leader.topic_id == ZERO_ID:
            version = min(version, TOPIC_IDS_FROM - 1)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=leader.epoch,
                fetch_offset=progress.position,
                partition_max_bytes=chunk_bytes,
            )
        )
    request.topics = list(topics.values())
    return request, version, names
