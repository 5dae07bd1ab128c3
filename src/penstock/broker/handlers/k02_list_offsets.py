"""ListOffsets, v1-v11: offsets by position or by time.

-1 latest (the last stable offset under read_committed), -2 earliest, -3 the largest timestamp, -4
earliest local (v8+), -5 latest tiered (v9+), -6 earliest pending upload (v11+): without tiering -4
is the log's start and the last two have no answer. A time gets the first offset at or after it; for
that batches are unpacked between turns, and a batch that cannot be read is CORRUPT_MESSAGE. If a
batch unpacks to more than the limit, the answer is the first offset that did not fit: a reader from
there misses no record. For a follower the latest offset is the end of the log. A leader that does
not know yet what earlier leaders have committed answers OFFSET_NOT_AVAILABLE (v5+).
"""

from collections import Counter, deque
from enum import Enum
from typing import TYPE_CHECKING

from penstock.broker.produce.unpacking import PartialScan, to_kafka_error
from penstock.broker.request import ClientRequest
from penstock.errors import (
    CorruptMessage,
    InvalidRequest,
    KafkaError,
    LeaderNotAvailable,
    OffsetNotAvailable,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from penstock.log.lookup import Candidate, TimeSearch
from penstock.security.permissions import DESCRIBE_TOPIC
from penstock.wire.compression import TooLarge
from penstock.wire.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.world import Cold, DiskFailed

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions.partition import Partition

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
SEARCHES_AT_ONCE = 4  # of one request
VAIN_BYTES_MAX = 64 * 1024 * 1024  # unpacked for one request because headers lied about times
OFFSET_NOT_AVAILABLE_FROM = 5
Asked = tuple[str, ListOffsetsPartition, ListOffsetsPartitionResponse]
Found = tuple[int, int, int]  # timestamp, offset, leader epoch
NOTHING: Found = (-1, -1, -1)


class OffsetReader(Enum):
    """The kinds of readers, which see different ends of a log."""

    UNCOMMITTED = "uncommitted"
    COMMITTED = "committed"
    FOLLOWER = "follower"


def handle(broker: "Broker", request: ClientRequest, message: ListOffsetsRequest) -> None:
    broker.append_now()
    response = ListOffsetsResponse()
    asked: list[Asked] = []
    for topic in message.topics:
        answers = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answers)
        allowed = broker.access.allows(request, DESCRIBE_TOPIC, topic.name)
        times = Counter(each.partition_index for each in topic.partitions)
        for wanted in {each.partition_index: each for each in topic.partitions}.values():
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answers.partitions.append(answer)
            if not allowed:
                answer.error_code = TopicAuthorizationFailed.code
            elif times[wanted.partition_index] > 1:
                answer.error_code = InvalidRequest.code
            else:
                asked.append((topic.name, wanted, answer))
    reader = _reader_of(message)
    timed = []
    for name, wanted, answer in asked:
        if wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP:
            timed.append((name, wanted, answer))
            continue
        try:
            partition = find(broker, name, wanted, request.api_version)
            found = _position(partition, wanted.timestamp, reader, request.api_version)
        except KafkaError as error:
            answer.error_code = error.code
        else:
            answer.timestamp, answer.offset, answer.leader_epoch = found
    if timed:
        TimestampSearches(broker, request, response, reader).begin(timed)
    else:
        request.reply(response)


def find(broker: "Broker", topic: str, wanted: ListOffsetsPartition, version: int) -> "Partition":
    """Return the asked partition, if a request of this version may name this timestamp."""
    if version < FIRST_VERSION.get(wanted.timestamp, 0) or wanted.timestamp < EARLIEST_PENDING:
        raise UnsupportedVersion
    return broker.find(topic, wanted.partition_index, wanted.current_leader_epoch)


def _reader_of(message: ListOffsetsRequest) -> OffsetReader:
    if message.replica_id >= 0:
        return OffsetReader.FOLLOWER
    is_committed = message.isolation_level == READ_COMMITTED
    return OffsetReader.COMMITTED if is_committed else OffsetReader.UNCOMMITTED


def _position(partition: "Partition", timestamp: int, reader: OffsetReader, version: int) -> Found:
    match timestamp:
        case -1:
            upper = _upper(partition, reader)
            _check_known(partition, reader, upper, version)
            return -1, upper, partition.leader.epoch
        case -2 | -4:
            return -1, partition.log.start_offset, _start_epoch(partition)
    return NOTHING


def _check_known(partition: "Partition", reader: OffsetReader, upper: int, version: int) -> None:
    """Raise while records of earlier leaders, which may be committed, are still hidden."""
    if reader is not OffsetReader.FOLLOWER and upper < partition.leader.epoch_start:
        error = OffsetNotAvailable if version >= OFFSET_NOT_AVAILABLE_FROM else LeaderNotAvailable
        raise error(f"{partition} has a new leader, which waits for its followers")


def _upper(partition: "Partition", reader: OffsetReader) -> int:
    """Return the end of the records that a reader may see."""
    if reader is OffsetReader.FOLLOWER:
        return partition.log.end_offset
    upper = partition.leader.high_watermark
    return partition.log.stable_offset(upper) if reader is OffsetReader.COMMITTED else upper


def _start_epoch(partition: "Partition") -> int:
    """Return the epoch of the first record; the leader's epoch for an empty log."""
    log = partition.log
    if log.start_offset == log.end_offset:
        return partition.leader.epoch
    return log.epochs.at(log.start_offset)


class TimestampSearches:
    """The searches of one request, a few partitions at a time, between turns."""

    def __init__(
        self,
        broker: "Broker",
        request: ClientRequest,
        response: ListOffsetsResponse,
        reader: OffsetReader,
    ) -> None:
        self.broker = broker
        self.request = request
        self.reader = reader
        self.vain_bytes = 0  # unpacked because of headers that lied
        self._response = response
        self._left: deque[Asked] = deque()
        self._running = 0

    def begin(self, asked: list[Asked]) -> None:
        # One request of a connection at a time may search: its answers leave in order anyway.
        self.request.connection.hold()
        self._left.extend(asked)
        for _ in range(min(SEARCHES_AT_ONCE, len(asked))):
            self._next()

    def _next(self) -> None:
        self._running += 1
        search = TimestampSearch(self, *self._left.popleft())
        self.broker.unpacking.later(search.step)

    def settled(self) -> None:
        self._running -= 1
        if self.request.connection.closing:
            self._left.clear()
        if self._left:
            self._next()
        elif not self._running:
            self.request.reply(self._response)
            self.request.connection.release()


class TimestampSearch:
    """The search for one timestamp in one partition."""

    def __init__(
        self,
        searches: TimestampSearches,
        topic: str,
        wanted: ListOffsetsPartition,
        answer: ListOffsetsPartitionResponse,
    ) -> None:
        self._searches = searches
        self._topic = topic
        self._wanted = wanted
        self._answer = answer
        self._partition: Partition | None = None
        self._search: TimeSearch | None = None
        self._candidate: Candidate | None = None

    def step(self) -> None:
        if self._searches.request.connection.closing:
            self._searches.settled()
            return
        unpacking = self._searches.broker.unpacking
        try:
            if self._search is None:
                self._search = self._begin()
            candidate = self._search.step()
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, self._warmed)
            return
        except Exception as error:
            self._failed(error)
            return
        if candidate is not None:
            assert self._partition is not None, "a search begins with its partition"
            bytes_max = self._partition.settings.unpacked_bytes_max
            self._candidate = candidate
            unpacking.scan(candidate.read, bytes_max, self._search.judge, self._looked)
        elif self._search.ended:
            self._found(None)
        else:
            unpacking.later(self.step)

    def _begin(self) -> TimeSearch:
        searches, wanted = self._searches, self._wanted
        version = searches.request.api_version
        self._partition = partition = find(searches.broker, self._topic, wanted, version)
        if wanted.timestamp == MAX_TIMESTAMP:
            return partition.log.search_largest_time()
        return partition.log.search_time(wanted.timestamp)

    def _warmed(self, failure: DiskFailed | None) -> None:
        if failure is None:
            self._searches.broker.unpacking.later(self.step)
        else:
            self._failed(failure)

    def _looked(
        self, found: Found | PartialScan | None, failure: Exception | None, unpacked_bytes: int
    ) -> None:
        assert self._search is not None and self._candidate is not None, "a look has its reason"
        if isinstance(failure, TooLarge):
            candidate, unpacking = self._candidate, self._searches.broker.unpacking
            unpacking.scan_large(candidate.read, self._search.judge, self._looked)
            return
        if failure is not None:
            self._failed(failure)
            return
        if isinstance(found, PartialScan):
            found = self._search.presume(found.offset)
        if found is not None:
            self._found(found)
            return
        self._searches.vain_bytes += unpacked_bytes
        if self._searches.vain_bytes > VAIN_BYTES_MAX:
            self._failed(CorruptMessage("batches claim times that none of their records has"))
        else:
            self._searches.broker.unpacking.later(self.step)

    def _found(self, found: Found | None) -> None:
        assert self._partition is not None, "only what was searched is found"
        # Records above the high watermark are not visible yet.
        searches, partition = self._searches, self._partition
        upper = _upper(partition, searches.reader)
        if found is None or found[1] >= upper:
            found = NOTHING
            try:
                _check_known(partition, searches.reader, upper, searches.request.api_version)
            except KafkaError as error:
                self._failed(error)
                return
        self._answer.timestamp, self._answer.offset, self._answer.leader_epoch = found
        self._searches.settled()

    def _failed(self, error: Exception) -> None:
        self._answer.error_code = to_kafka_error(error, CorruptMessage).code
        self._searches.settled()
