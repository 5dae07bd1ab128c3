"""A consumer's reads: positions, sessions, and the records that its isolation shows."""

from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from penstock.model import NO_LEADER_EPOCH, TopicPartition
from penstock.testing.sim.client import FETCH, OFFSET_OUT_OF_RANGE, SESSION_ERRORS
from penstock.testing.sim.script import Ask, TopicFacts
from penstock.wire.batch import (
    ABORT_MARKER,
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    PRODUCER_ID,
    TRANSACTIONAL,
    Header,
    batch_headers,
    read_marker,
    read_records,
)
from penstock.wire.messages import k01_fetch

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FETCH_VERSIONS = (4, 6, 7, 11, 12, 13, 15, 17, 18)
SESSIONS_FROM = 7
TOPIC_IDS_FROM = 13
PASSING = (3, 6, 56, 100)
LEADER_EPOCH_ERRORS = (74, 75)  # fenced, unknown


class Fetched(NamedTuple):
    partition: TopicPartition
    offset: int
    value: bytes


class PartitionCursor:
    """The positions of one consumer in its partitions. An answer that no broker may give is a
    violation."""

    def __init__(
        self,
        name: str,
        chance: Random,
        topics: Mapping[str, TopicFacts],
        isolation: int,
        *,
        sessions: bool,
        wait_ms: tuple[int, ...] = (0, 50, 500),
        current_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Make a cursor without positions. With `current_epochs`, of the leaders as the client
        knows them, fetches name these epochs (KIP-320)."""
        self.positions: dict[TopicPartition, int] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}  # of the batches before the positions
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.violations: list[str] = []
        self._name = name
        self._chance = chance
        self._topics = topics
        self._names = {facts.topic_id: topic for topic, facts in topics.items()}
        self._isolation = isolation
        self._version = chance.choice(FETCH_VERSIONS)
        self._sessions = sessions and self._version >= SESSIONS_FROM
        self._wait_ms = wait_ms
        self._current_epochs = {} if current_epochs is None else current_epochs
        self._passing = PASSING if current_epochs is None else (*PASSING, *LEADER_EPOCH_ERRORS)
        self._session = (0, 0 if self._sessions else -1)
        self._session_positions: dict[TopicPartition, int] = {}  # the positions in the session

    # -- requests

    def request(self) -> Ask:
        """Return a request for all partitions with a position."""
        if self._sessions and self._chance.random() < 0.03:
            self._session = (0, 0)
        session_id, epoch = self._session
        if epoch <= 0:
            self._session_positions = {}
        topics: dict[str, k01_fetch.FetchTopic] = {}
        for topic_partition, offset in self.positions.items():
            if self._session_positions.get(topic_partition) == offset:
                continue
            self._session_positions[topic_partition] = offset
            topic = topics.setdefault(
                topic_partition.topic,
                k01_fetch.FetchTopic(
                    topic=topic_partition.topic,
                    topic_id=self._topics[topic_partition.topic].topic_id,
                ),
            )
            topic.partitions.append(
                k01_fetch.FetchPartition(
                    partition=topic_partition.partition,
                    current_leader_epoch=self._current_epochs.get(topic_partition, NO_LEADER_EPOCH),
                    fetch_offset=offset,
                    partition_max_bytes=self._chance.choice((1, 1_000, 1 << 20)),
                )
            )
        message = k01_fetch.FetchRequest(
            max_wait_ms=self._chance.choice(self._wait_ms),
            min_bytes=self._chance.choice((0, 1, 1, 500)),
            max_bytes=self._chance.choice((1_000, 1 << 20, 50 << 20)),
            isolation_level=self._isolation,
            session_id=session_id,
            session_epoch=epoch,
            topics=list(topics.values()),
        )
        return Ask(FETCH, self._version, message)

    def lost(self) -> None:
        """Note a missing response: the session is gone with the connection."""
        if self._sessions:
            self._session = (0, 0)

    # -- responses

    def take(self, response: k01_fetch.FetchResponse) -> list[Fetched]:
        """Return the records of a response; positions move past all its batches."""
        epoch = self._session[1]
        if response.error_code:
            if response.error_code not in SESSION_ERRORS:
                self.violations.append(f"{self._name}: fetch error {response.error_code}")
            self.lost()
            return []
        if self._sessions:
            self._session = (response.session_id, epoch + 1) if response.session_id else (0, 0)
        found: list[Fetched] = []
        for topic in response.responses:
            by_id = self._version >= TOPIC_IDS_FROM
            name = self._names[topic.topic_id] if by_id else topic.topic
            for data in topic.partitions:
                found += self._take(TopicPartition(name, data.partition_index), data)
        return found

    def _take(
        self, topic_partition: TopicPartition, data: k01_fetch.PartitionData
    ) -> Iterable[Fetched]:
        at = self.positions[topic_partition]
        if data.error_code:
            self.lost()
            if data.error_code == OFFSET_OUT_OF_RANGE:
                self.violations.append(f"{self._name}: {topic_partition} went back behind {at}")
            elif data.error_code not in self._passing:
                self.violations.append(f"{self._name}: {topic_partition} error {data.error_code}")
            return ()
        self.high_watermarks[topic_partition] = data.high_watermark
        if data.last_stable_offset > data.high_watermark:
            self.violations.append(
                f"{self._name}: {topic_partition} is stable beyond its high watermark"
            )
        committed_only = self._isolation == READ_COMMITTED
        end = data.last_stable_offset if committed_only else data.high_watermark
        found = [each for each in self._visible(topic_partition, data) if each.offset >= at]
        if self.positions[topic_partition] > max(end, at):
            self.violations.append(f"{self._name}: {topic_partition} was told beyond {end}")
        return found

    def _visible(
        self, topic_partition: TopicPartition, data: k01_fetch.PartitionData
    ) -> Iterator[Fetched]:
        """Filter as consumers do: a producer is aborted from an offset on, up to
        its next marker."""
        records = data.records or b""
        aborted = sorted((each.first_offset, each.producer_id) for each in _aborted(data))
        gone: set[int] = set()
        for position, header in batch_headers(records):
            batch = memoryview(records)[position : position + LENGTH_OVERHEAD + header[LENGTH]]
            last = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA]
            self._move(topic_partition, header, last)
            while aborted and aborted[0][0] <= last:
                gone.add(aborted.pop(0)[1])
            if header[ATTRIBUTES] & CONTROL:
                marker = read_marker(batch)
                if marker is not None and marker[0] == ABORT_MARKER:
                    gone.discard(header[PRODUCER_ID])
            elif not (header[ATTRIBUTES] & TRANSACTIONAL and header[PRODUCER_ID] in gone):
                for record in read_records(batch):
                    yield Fetched(topic_partition, record.offset, record.value or b"")

    def _move(self, topic_partition: TopicPartition, header: Header, last: int) -> None:
        at = self.positions[topic_partition]
        if header[BASE_OFFSET] > at:
            self.violations.append(f"{self._name}: {topic_partition} {at} is missing")
        self.positions[topic_partition] = max(at, last + 1)
        self.leader_epochs[topic_partition] = header[LEADER_EPOCH]


def _aborted(data: k01_fetch.PartitionData) -> list[k01_fetch.AbortedTransaction]:
    return data.aborted_transactions or []
