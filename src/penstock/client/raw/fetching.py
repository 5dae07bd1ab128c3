"""Fetch requests of a reader: without a session, by topic id where the server knows them.

The answer is received into one buffer; what is handed on are views of it.
"""

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.raw.course import Course
from penstock.client.transport.connection import Connection, Pending
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

# base offset, length, magic, last offset delta; what lies between is stepped over
_STRIDE = struct.Struct(">qi4xb6xi")


@dataclass(frozen=True, slots=True)
class Flight:
    """A Fetch under way, and whom it is for, in the order of its partitions."""

    connection: Connection
    pending: Pending
    courses: list[Course]
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
    connection: Connection, courses: Sequence[Course], chunk_bytes: int, committed_only: bool
) -> Flight:
    """Ask for the next records of all of these, which have one leader."""
    ordered = _by_topic(courses)
    request, version, names = _request(connection, ordered, chunk_bytes, committed_only)
    request.min_bytes, request.max_wait_ms = 1, WAIT_MS
    return Flight(connection, connection.begin(request, version), ordered, names)


def probe(
    connection: Connection, course: Course, chunk_bytes: int, committed_only: bool
) -> tuple[float, PartitionData | None]:
    """Ask for one course alone and for an answer at once, also an empty one; the time it took."""
    request, version, names = _request(connection, [course], chunk_bytes, committed_only)
    request.min_bytes, request.max_wait_ms = 0, PROBE_WAIT_MS
    began = time.monotonic()
    flight = Flight(connection, connection.begin(request, version), [course], names)
    answer = connection.finish(flight.pending, FetchResponse)
    took_ms = (time.monotonic() - began) * 1000
    if answer.error_code or answer.throttle_time_ms:
        return took_ms, None
    return took_ms, flight.parts_of(answer).get(course.partition)


def next_offset(records: memoryview) -> tuple[int, int] | None:
    """The offset after the last whole batch, and the bytes of all whole ones; None without any."""
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


def _by_topic(courses: Sequence[Course]) -> list[Course]:
    """In the order in which the request has them: topics as they first appear."""
    topics: dict[str, list[Course]] = {}
    for course in courses:
        topics.setdefault(course.partition.topic, []).append(course)
    return [each for group in topics.values() for each in group]


def _request(
    connection: Connection, courses: Sequence[Course], chunk_bytes: int, committed_only: bool
) -> tuple[FetchRequest, int, dict[bytes, str]]:
    request = FetchRequest(
        max_bytes=chunk_bytes,
        isolation_level=int(committed_only),
        session_epoch=NO_SESSION_EPOCH,
    )
    version = connection.version_for(request)
    names: dict[bytes, str] = {}
    topics: dict[str, FetchTopic] = {}
    for course in courses:
        leader = course.leader
        assert leader is not None, "only courses with a leader are fetched"
        name, index = course.partition
        topic = topics.setdefault(name, FetchTopic(topic=name, topic_id=leader.topic_id))
        names[leader.topic_id] = name
        if leader.topic_id == ZERO_ID:
            version = min(version, TOPIC_IDS_FROM - 1)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=leader.epoch,
                fetch_offset=course.position,
                partition_max_bytes=chunk_bytes,
            )
        )
    request.topics = list(topics.values())
    return request, version, names
