"""Reads ranges of offsets, as raw record batches, from the leaders of their partitions.

One Fetch per leader is in flight while the caller handles the last response; all ranges of a leader
share it. FetchedBatches are views of the received buffer: no copy, no decompression.

Every range ends: with all of its batches, or with an exception of outcomes.py. New leaders, lost
connections and corrupt responses are retried within the limits of `Patience`. fetch_requests.py has
the requests, range_progress.py the progress of each range.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.cluster.nodes import Nodes
from penstock.client.cluster.topics import ask_offsets
from penstock.client.raw.fetch_requests import Flight, begin_fetch, next_offset, probe
from penstock.client.raw.leaders import KnownLeader, Leaders, is_absence
from penstock.client.raw.outcomes import NotAuthorized, RecordsExpired, RecordsLost
from penstock.client.raw.range_progress import OffsetRange, Patience, RangeProgress
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

__all__ = ["FetchedBatches", "OffsetRange", "Patience", "RangeReader", "next_offset"]

CHUNK_BYTES_DEFAULT = 4 * 1024 * 1024
PARTITIONS_PER_FETCH_MAX = 128
# An empty response proves that a range has no records only if it came at once. A server whose
# records are still on their way from a disk or from tiered storage also answers without them, but
# waits first (half a second and more).
EMPTY_ANSWERS_MIN = 3
EMPTY_ANSWER_MS_MAX = 400
OFFSETS_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Whole batches of one partition.

    `start` is the first wanted offset, `end` the end of the range: batches may begin before and
    reach beyond. `aborted` has producer id and first offset of aborted transactions. `records`
    points into a received buffer and keeps it alive.
    """

    partition: TopicPartition
    start: int
    end: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]


class RangeReader:
    """Reads each range once: in order within a range, in any order among ranges."""

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
        """Prepare to read `ranges` from their leaders.

        `next_offset` gets received records. Its result is the offset after the last whole batch,
        and the bytes of all whole batches. Without a whole batch the result is None.
        """
        self._nodes = nodes
        self._leaders = Leaders(nodes, topic_ids)
        self._committed_only = committed_only
        self._chunk_bytes = chunk_bytes
        self._next_offset = next_offset
        self._patience = patience or Patience()
        now = time.monotonic()
        self._ranges = [RangeProgress(each, now, self._patience) for each in ranges]
        self._flights: dict[int, Flight] = {}  # by leader, the oldest first
        self._resting: dict[int, float] = {}  # leaders that asked for a pause, and its end

    def chunks(self) -> Iterator[FetchedBatches]:
        """Yield the batches of all ranges. The next fetch is in flight while the caller handles
        one."""
        self._ranges = [each for each in self._ranges if not each.done]
        while self._ranges:
            self._begin_fetches()
            if not self._flights:
                self._pause()
                continue
            leader, flight = next(iter(self._flights.items()))
            del self._flights[leader]
            landed = self._land(leader, flight)
            self._ranges = [each for each in self._ranges if not each.done]
            self._begin_fetches()
            yield from landed

    # -- asking

    def _begin_fetches(self) -> None:
        now = time.monotonic()
        self._route(now)
        by_leader: dict[int, list[RangeProgress]] = {}
        asked: dict[TopicPartition, None] = {}
        for progress in self._ranges:
            leader = progress.leader
            if leader is None or progress.flying or leader.node_id in self._flights:
                continue
            # A Fetch has a partition once; further ranges of it wait for their turn.
            if progress.partition not in asked and self._resting.get(leader.node_id, 0.0) <= now:
                asked[progress.partition] = None
                by_leader.setdefault(leader.node_id, []).append(progress)
        for node_id, ranges in by_leader.items():
            self._begin_fetch(node_id, ranges[:PARTITIONS_PER_FETCH_MAX])

    def _begin_fetch(self, node_id: int, ranges: list[RangeProgress]) -> None:
        try:
            connection = self._nodes.node(node_id)
            flight = begin_fetch(connection, ranges, self._chunk_bytes, self._committed_only)
        except NotAuthenticated:
            raise
        except (CannotReach, BrokerNotAvailable) as problem:
            for progress in ranges:
                progress.stumbled(str(problem))
            return
        for progress in ranges:
            progress.flying = True
        self._flights[node_id] = flight

    def _route(self, now: float) -> None:
        """Find leaders for ranges without one whose pause is over."""
        lost = [each for each in self._ranges if each.leader is None and each.rests_until <= now]
        if not lost:
            return
        try:
            self._leaders.refresh(each.partition.topic for each in lost)
        except NotAuthenticated:
            raise
        except CannotReach as problem:
            for progress in lost:
                progress.stumbled(str(problem))
            return
        for progress in lost:
            found = self._leaders.find(progress.partition)
            if isinstance(found, KnownLeader):
                progress.leader = found
            else:
                self._failed(progress, found)

    def _pause(self) -> None:
        """Sleep until a range may try again."""
        times = [
            self._resting.get(each.leader.node_id, 0.0) if each.leader else each.rests_until
            for each in self._ranges
        ]
        time.sleep(max(0.0, min(times) - time.monotonic()))

    # -- answers

    def _land(self, node_id: int, flight: Flight) -> list[FetchedBatches]:
        """Return the batches of a response; a range that got some goes behind the others."""
        for progress in flight.ranges:
            progress.flying = False
        try:
            answer = flight.connection.finish(flight.pending, FetchResponse)
        except NotAuthenticated:
            raise
        except CannotReach as problem:
            for progress in flight.ranges:
                progress.stumbled(str(problem))
            return []
        if answer.throttle_time_ms > 0:
            self._resting[node_id] = time.monotonic() + answer.throttle_time_ms / 1000
        parts = flight.parts_of(answer)
        landed: list[FetchedBatches] = []
        for place, progress in enumerate(flight.ranges):
            part = parts.get(progress.partition)
            if answer.error_code:
                self._failed(progress, from_code(answer.error_code))
            elif part is None:
                # A throttled response is empty.
                if not answer.throttle_time_ms:
                    self._failed(progress, UnknownServerError("the server did not answer for it"))
            elif part.error_code:
                self._failed(progress, from_code(part.error_code))
            elif (chunk := self._take(progress, part, first=place == 0)) is not None:
                landed.append(chunk)
        fed = {chunk.partition for chunk in landed}
        self._ranges.sort(key=lambda each: each.partition in fed)
        return landed

    def _take(
        self, progress: RangeProgress, part: PartitionData, *, first: bool
    ) -> FetchedBatches | None:
        records = part.records
        if not records:
            self._take_nothing(progress, part, first=first)
            return None
        assert isinstance(records, memoryview), "answers are read from a view"
        try:
            found = self._next_offset(records)
        except Malformed as problem:
            self._failed(progress, CorruptMessage(str(problem)))
            return None
        if found is None:
            if first:
                # The first partition of a response always gets a whole batch.
                self._failed(progress, CorruptMessage("the server cut the only batch short"))
            return None
        following, size = found
        if following <= progress.position:
            self._failed(
                progress, CorruptMessage(f"the batches sent end before {progress.position}")
            )
            return None
        start = progress.position
        progress.moved(following)
        if int.from_bytes(records[:8], "big", signed=True) >= progress.end:
            return None  # the rest of the range has been compacted away
        aborted = tuple(
            (each.producer_id, each.first_offset) for each in part.aborted_transactions or ()
        )
        return FetchedBatches(progress.partition, start, progress.end, records[:size], aborted)

    def _take_nothing(self, progress: RangeProgress, part: PartitionData, *, first: bool) -> None:
        readable = part.last_stable_offset if self._committed_only else part.high_watermark
        if progress.position >= readable:
            if progress.fell_short():
                self._look_for_end(progress)
            elif self._committed_only and part.high_watermark >= progress.end:
                progress.waited("an open transaction holds back what comes after it")
            else:
                progress.waited(f"the log is readable up to {readable} only")
        elif first and self._holds_nothing(progress):
            # The offsets in between have been compacted away.
            progress.moved(min(readable, progress.end))
        else:
            progress.waited("the server has records and does not send them")

    def _holds_nothing(self, progress: RangeProgress) -> bool:
        """Return whether a range that could have records has none; see EMPTY_ANSWERS_MIN."""
        assert progress.leader is not None, "it has just answered"
        try:
            connection = self._nodes.node(progress.leader.node_id)
            for _ in range(EMPTY_ANSWERS_MIN):
                took_ms, part = probe(connection, progress, self._chunk_bytes, self._committed_only)
                if part is None or part.error_code or part.records:
                    return False
                readable = part.last_stable_offset if self._committed_only else part.high_watermark
                if took_ms > EMPTY_ANSWER_MS_MAX or progress.position >= readable:
                    return False
        except (CannotReach, BrokerNotAvailable):
            return False  # the next fetch tells
        return True

    # -- failures

    def _failed(self, progress: RangeProgress, error: KafkaError) -> None:
        if isinstance(error, TopicAuthorizationFailed):
            raise NotAuthorized(progress.partition, "read", error)
        if isinstance(error, OffsetOutOfRange):
            self._out_of_range(progress)
        elif is_absence(error) and progress.stayed_missing():
            raise self._leaders.absence(progress.partition)
        elif error.retriable or isinstance(error, UnknownServerError):
            progress.stumbled(f"{error.kafka_name()}, {error.message}")
        else:
            progress.gave_up(f"{error.kafka_name()}, {error.message}")

    def _out_of_range(self, progress: RangeProgress) -> None:
        """Handle OFFSET_OUT_OF_RANGE: too early, too late, or a former leader."""
        begins, ends = self._bounds(progress)
        if begins is not None and progress.position < begins.offset:
            raise RecordsExpired(progress.partition, progress.position, progress.end, begins.offset)
        # Asked twice, of a newly found leader: a former one may be behind.
        if ends is not None and progress.position > ends.offset and progress.out_of_range:
            raise RecordsLost(progress.partition, progress.position, progress.end, ends.offset)
        progress.out_of_range = True
        progress.stumbled("the server says that the offset is out of range")

    def _look_for_end(self, progress: RangeProgress) -> None:
        """Check the log end after a long wait for promised records."""
        _, ends = self._bounds(progress)
        if ends is not None and ends.offset < progress.end:
            raise RecordsLost(progress.partition, progress.position, progress.end, ends.offset)
        progress.waited("an open transaction holds back what comes after it")

    def _bounds(self, progress: RangeProgress) -> tuple[FoundOffset | None, FoundOffset | None]:
        """Return the log start and end offset, as the leader tells them; None without an answer."""
        assert progress.leader is not None, "it has just answered"
        try:
            connection = self._nodes.node(progress.leader.node_id)
            return (
                _bound(connection, progress.partition, At.BEGINNING),
                _bound(connection, progress.partition, At.END),
            )
        except (CannotReach, BrokerNotAvailable):
            return None, None


def _bound(connection: Connection, partition: TopicPartition, place: At) -> FoundOffset | None:
    found = ask_offsets(connection, {partition: place}, False, OFFSETS_TIMEOUT_MS).get(partition)
    return found if isinstance(found, FoundOffset) else None
