"""Reads ranges of offsets, as raw record batches, from the leaders of their partitions.

One Fetch per leader is under way while the caller works on what the last one brought; all ranges
of a leader share it. A chunk is a view of what was received: nothing is copied, nothing unpacked.

Every range ends: with all of its batches given, or with an exception of outcomes.py. Leaders that
move, lost connections and damaged answers are tried again within the limits of `Patience`.
fetching.py has the requests, course.py how far each range has come.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.cluster.nodes import Nodes
from penstock.client.cluster.offsets import ask_offsets
from penstock.client.raw.course import Course, OffsetRange, Patience
from penstock.client.raw.fetching import Flight, begin_fetch, next_offset, probe
from penstock.client.raw.leaders import Leader, Leaders, is_absence
from penstock.client.raw.outcomes import NotAuthorized, RecordsExpired, RecordsLost
from penstock.client.transport.connection import CannotReach, Connection, NotAuthenticated
from penstock.client.values import At, FoundOffset
from penstock.errors import (
    BrokerNotAvailable,
    CorruptMessage,
    KafkaError,
    OffsetOutOfRange,
    TopicAuthorizationFailed,
    UnknownServerError,
    from_code,
)
from penstock.model import TopicPartition
from penstock.wire.messages.k01_fetch import FetchResponse, PartitionData
from penstock.wire.primitives import Malformed

__all__ = ["Chunk", "OffsetRange", "Patience", "RangeReader", "next_offset"]

CHUNK_BYTES_DEFAULT = 4 * 1024 * 1024
PARTITIONS_PER_FETCH_MAX = 128
# An answer without records, to a question that could have had some, proves that there are none
# only if it came at once: a server whose records are still on their way from a disk or from tiered
# storage also answers without them, but waits first (half a second and more).
EMPTY_ANSWERS_MIN = 3
EMPTY_ANSWER_MS_MAX = 400
OFFSETS_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches of one partition.

    `start` is the first offset that is wanted of them, `end` that of its range: batches may begin
    before and reach beyond. `aborted` has producer id and first offset of aborted transactions.
    `records` points into a received buffer and keeps it alive.
    """

    partition: TopicPartition
    start: int
    end: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]


class RangeReader:
    """Reads each range once, in any order among ranges, in order within one."""

    def __init__(
        self,
        nodes: Nodes,
        ranges: Sequence[OffsetRange],
        *,
        committed_only: bool,
        topic_ids: Mapping[str, bytes] | None = None,
        chunk_bytes: int = CHUNK_BYTES_DEFAULT,
        next_offset: Callable[[memoryview], tuple[int, int] | None] = next_offset,
        patience: Patience | None = None,
    ) -> None:
        """`next_offset` gets received records and tells the offset after the last whole batch and
        the bytes of all whole ones, None if there is no whole one."""
        self._nodes = nodes
        self._leaders = Leaders(nodes, topic_ids)
        self._committed_only = committed_only
        self._chunk_bytes = chunk_bytes
        self._next_offset = next_offset
        self._patience = patience or Patience()
        now = time.monotonic()
        self._courses = [Course(each, now, self._patience) for each in ranges]
        self._flights: dict[int, Flight] = {}  # by leader, the one that began first in front
        self._resting: dict[int, float] = {}  # leaders that have asked for a pause, and until when

    def chunks(self) -> Iterator[Chunk]:
        """All chunks of all ranges. The next fetch is under way while one is being looked at."""
        self._courses = [each for each in self._courses if not each.done]
        while self._courses:
            self._begin_fetches()
            if not self._flights:
                self._pause()
                continue
            leader, flight = next(iter(self._flights.items()))
            del self._flights[leader]
            landed = self._land(leader, flight)
            self._courses = [each for each in self._courses if not each.done]
            self._begin_fetches()
            yield from landed

    # -- asking

    def _begin_fetches(self) -> None:
        now = time.monotonic()
        self._route(now)
        by_leader: dict[int, list[Course]] = {}
        asked: dict[TopicPartition, None] = {}
        for course in self._courses:
            leader = course.leader
            if leader is None or course.flying or leader.node_id in self._flights:
                continue
            # A partition can stand in a Fetch once; other ranges of it wait for their turn.
            if course.partition not in asked and self._resting.get(leader.node_id, 0.0) <= now:
                asked[course.partition] = None
                by_leader.setdefault(leader.node_id, []).append(course)
        for node_id, courses in by_leader.items():
            self._begin_fetch(node_id, courses[:PARTITIONS_PER_FETCH_MAX])

    def _begin_fetch(self, node_id: int, courses: list[Course]) -> None:
        try:
            connection = self._nodes.node(node_id)
            flight = begin_fetch(connection, courses, self._chunk_bytes, self._committed_only)
        except NotAuthenticated:
            raise
        except (CannotReach, BrokerNotAvailable) as problem:
            for course in courses:
                course.stumbled(str(problem))
            return
        for course in courses:
            course.flying = True
        self._flights[node_id] = flight

    def _route(self, now: float) -> None:
        """Find a leader for those who have none and may try again."""
        lost = [each for each in self._courses if each.leader is None and each.rests_until <= now]
        if not lost:
            return
        try:
            self._leaders.refresh(each.partition.topic for each in lost)
        except NotAuthenticated:
            raise
        except CannotReach as problem:
            for course in lost:
                course.stumbled(str(problem))
            return
        for course in lost:
            found = self._leaders.find(course.partition)
            if isinstance(found, Leader):
                course.leader = found
            else:
                self._failed(course, found)

    def _pause(self) -> None:
        """Until somebody may try again."""
        times = [
            self._resting.get(each.leader.node_id, 0.0) if each.leader else each.rests_until
            for each in self._courses
        ]
        time.sleep(max(0.0, min(times) - time.monotonic()))

    # -- answers

    def _land(self, node_id: int, flight: Flight) -> list[Chunk]:
        """The chunks of an answer; a course that got some goes behind the others."""
        for course in flight.courses:
            course.flying = False
        try:
            answer = flight.connection.finish(flight.pending, FetchResponse)
        except NotAuthenticated:
            raise
        except CannotReach as problem:
            for course in flight.courses:
                course.stumbled(str(problem))
            return []
        if answer.throttle_time_ms > 0:
            self._resting[node_id] = time.monotonic() + answer.throttle_time_ms / 1000
        parts = flight.parts_of(answer)
        landed: list[Chunk] = []
        for place, course in enumerate(flight.courses):
            part = parts.get(course.partition)
            if answer.error_code:
                self._failed(course, from_code(answer.error_code))
            elif part is None:
                # A throttled answer has nothing in it.
                if not answer.throttle_time_ms:
                    self._failed(course, UnknownServerError("the server did not answer for it"))
            elif part.error_code:
                self._failed(course, from_code(part.error_code))
            elif (chunk := self._take(course, part, first=place == 0)) is not None:
                landed.append(chunk)
        fed = {chunk.partition for chunk in landed}
        self._courses.sort(key=lambda each: each.partition in fed)
        return landed

    def _take(self, course: Course, part: PartitionData, *, first: bool) -> Chunk | None:
        records = part.records
        if not records:
            self._take_nothing(course, part, first=first)
            return None
        assert isinstance(records, memoryview), "answers are read from a view"
        try:
            found = self._next_offset(records)
        except Malformed as problem:
            self._failed(course, CorruptMessage(str(problem)))
            return None
        if found is None:
            if first:
                # The first partition of an answer always gets a whole batch.
                self._failed(course, CorruptMessage("the server cut the only batch short"))
            return None
        following, size = found
        if following <= course.position:
            self._failed(course, CorruptMessage(f"the batches sent end before {course.position}"))
            return None
        start = course.position
        course.moved(following)
        if int.from_bytes(records[:8], "big", signed=True) >= course.end:
            return None  # what was left of the range has been compacted away
        aborted = tuple(
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        )
        return Chunk(course.partition, start, course.end, records[:size], aborted)

    def _take_nothing(self, course: Course, part: PartitionData, *, first: bool) -> None:
        readable = part.last_stable_offset if self._committed_only else part.high_watermark
        if course.position >= readable:
            if course.fell_short():
                self._look_for_end(course)
            elif self._committed_only and part.high_watermark >= course.end:
                course.waited("an open transaction holds back what comes after it")
            else:
                course.waited(f"the log is readable up to {readable} only")
        elif first and self._holds_nothing(course):
            # Between here and there nothing is left: compacted away.
            course.moved(min(readable, course.end))
        else:
            course.waited("the server has records and does not send them")

    def _holds_nothing(self, course: Course) -> bool:
        """Whether a range that could have records has none; see EMPTY_ANSWERS_MIN."""
        assert course.leader is not None, "it has just answered"
        try:
            connection = self._nodes.node(course.leader.node_id)
            for _ in range(EMPTY_ANSWERS_MIN):
                took_ms, part = probe(connection, course, self._chunk_bytes, self._committed_only)
                if part is None or part.error_code or part.records:
                    return False
                readable = part.last_stable_offset if self._committed_only else part.high_watermark
                if took_ms > EMPTY_ANSWER_MS_MAX or course.position >= readable:
                    return False
        except (CannotReach, BrokerNotAvailable):
            return False  # the next fetch will find out
        return True

    # -- failures

    def _failed(self, course: Course, error: KafkaError) -> None:
        if isinstance(error, TopicAuthorizationFailed):
            raise NotAuthorized(course.partition, "read", error)
        if isinstance(error, OffsetOutOfRange):
            self._out_of_range(course)
        elif is_absence(error) and course.stayed_missing():
            raise self._leaders.absence(course.partition)
        elif error.retriable or isinstance(error, UnknownServerError):
            course.stumbled(f"{error.kafka_name()}, {error.message}")
        else:
            course.gave_up(f"{error.kafka_name()}, {error.message}")

    def _out_of_range(self, course: Course) -> None:
        """Too early, too late, or a leader that is not one any more."""
        begins, ends = self._bounds(course)
        if begins is not None and course.position < begins.offset:
            raise RecordsExpired(course.partition, course.position, course.end, begins.offset)
        # Asked twice, of a leader found anew: an old one may be behind.
        if ends is not None and course.position > ends.offset and course.out_of_range:
            raise RecordsLost(course.partition, course.position, course.end, ends.offset)
        course.out_of_range = True
        course.stumbled("the server says that the offset is out of range")

    def _look_for_end(self, course: Course) -> None:
        """It has waited long for records that it was promised."""
        _, ends = self._bounds(course)
        if ends is not None and ends.offset < course.end:
            raise RecordsLost(course.partition, course.position, course.end, ends.offset)
        course.waited("an open transaction holds back what comes after it")

    def _bounds(self, course: Course) -> tuple[FoundOffset | None, FoundOffset | None]:
        """Where the log begins and ends, as its leader says; None if it does not say."""
        assert course.leader is not None, "it has just answered"
        try:
            connection = self._nodes.node(course.leader.node_id)
            return (
                _bound(connection, course.partition, At.BEGINNING),
                _bound(connection, course.partition, At.END),
            )
        except (CannotReach, BrokerNotAvailable):
            return None, None


def _bound(connection: Connection, partition: TopicPartition, place: At) -> FoundOffset | None:
    found = ask_offsets(connection, {partition: place}, False, OFFSETS_TIMEOUT_MS).get(partition)
    return found if isinstance(found, FoundOffset) else None
