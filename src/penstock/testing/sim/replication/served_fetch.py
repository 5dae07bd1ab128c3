"""The fetches that a simulated leader serves, with the fetch sessions of a broker."""

from typing import TYPE_CHECKING

from penstock.broker.fetch.replica_fetch import (
    FetchingReplica,
    check_replica,
    let_join,
    note_arrival,
    replica_of,
)
from penstock.broker.fetch.sessions import FetchSessions, FetchSet, WatchedPartition
from penstock.broker.sliced_work import Work
from penstock.errors import (
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from penstock.testing.sim.replication.connections import SendAnswer
from penstock.testing.sim.replication.sim_controller import TOPIC_ID
from penstock.testing.sim.replication.sim_partition import SimPartition
from penstock.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from penstock.testing.sim.replication.replicating_node import ReplicatingNode

FETCH_VERSION = 18
SESSION_EVICTION_MS = 150


class ServedSessions:
    """The sessions of one life of a leader."""

    def __init__(self, node: "ReplicatingNode") -> None:
        self.node = node
        self.simulation = node.simulation
        chance = node.simulation.chance
        self._sessions = FetchSessions(
            node.simulation.draw.fetch_sessions,
            SESSION_EVICTION_MS,
            lambda: chance.randrange(1, 2**31),
            _run,
        )

    def serve(self, request: FetchRequest, reply: SendAnswer) -> None:
        """Answer a fetch, now or when there are records."""
        now_ms = self.simulation.now_ms
        replica = replica_of(request, FETCH_VERSION)
        assert replica is not None
        try:
            fetch_set, incremental = self._sessions.find(request, FETCH_VERSION, now_ms)
        except KafkaError as error:
            self.simulation.checker.counters["sessions rejected"] += 1
            reply(FetchResponse(error_code=error.code))
            return
        fetch = ServedFetch(self, request, replica, fetch_set, reply, incremental=incremental)
        fetch.begin(now_ms)

    def close(self, fetch_set: FetchSet) -> None:
        self._sessions.close(fetch_set)


def _run(work: Work) -> None:
    for _ in work:
        pass


class ServedFetch:
    """One fetch of a follower (sessions.ParkedFetch)."""

    def __init__(
        self,
        sessions: ServedSessions,
        request: FetchRequest,
        replica: FetchingReplica,
        fetch_set: FetchSet,
        reply: SendAnswer,
        *,
        incremental: bool,
    ) -> None:
        self._sessions = sessions
        self._node = sessions.node
        self._simulation = sessions.simulation
        self._request = request
        self._replica = replica
        self._set = fetch_set
        self._reply = reply
        self._incremental = incremental
        self._answers: dict[WatchedPartition, PartitionData] = {}
        self._arriving = True
        self._queued = False
        self._over = False

    def begin(self, now_ms: float) -> None:
        contact = self._set.contact
        if contact is not None and contact.displaced:
            self._simulation.checker.counters["displaced fetches"] += 1
        self._set.arrive(self._replica.replica_id, now_ms)
        self._set.update(self._request)
        self._look()
        self._arriving = False
        if self._set.outside:
            let_join(self._set, self._replica, now_ms, self._node.isr_changes)
        if self._set.fetching is not None:
            self._set.fetching.answer()
        if self._has_news():
            self.answer()
            return
        self._set.fetching = self
        wait_ms = self._request.max_wait_ms
        self._simulation.at(now_ms + wait_ms, self._node, self._answer_late, self._node.life)

    def reconsider_soon(self) -> None:
        if not self._queued:
            self._queued = True
            self._simulation.at(
                self._simulation.now_ms, self._node, self._reconsider, self._node.life
            )

    def _reconsider(self) -> None:
        self._queued = False
        if not self._over:
            self._look()
            if self._has_news():
                self.answer()

    def _answer_late(self) -> None:
        if not self._over:
            self._look()
            self.answer()

    def _has_news(self) -> bool:
        return any(_has_news(each) for each in self._answers.values())

    def _look(self) -> None:
        for watched in list(self._set.dirty):
            answer = self._answers[watched] = self._read(watched)
            if not _has_news(answer):
                del self._set.dirty[watched]

    def answer(self) -> None:
        if self._over:
            return
        self._over = True
        if self._set.fetching is self:
            self._set.fetching = None
        if not self._set.session_id:
            self._sessions.close(self._set)
        served = []
        for watched, data in self._answers.items():
            moved = (data.high_watermark, data.log_start_offset) != (
                watched.sent_high_watermark,
                watched.sent_log_start,
            )
            if not self._incremental or moved or _has_news(data):
                watched.sent_high_watermark = data.high_watermark
                watched.sent_log_start = data.log_start_offset
                served.append(data)
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=served)] if served else []
        self._reply(FetchResponse(session_id=self._set.session_id, responses=topics))

    # -- one partition

    def _read(self, watched: WatchedPartition) -> PartitionData:
        partition = self._node.partitions[watched.index]
        try:
            self._check(partition, watched)
            return self._read_log(partition, watched)
        except KafkaError as error:
            if isinstance(error, OffsetOutOfRange):
                self._simulation.checker.counters["fetches out of range"] += 1
            return PartitionData(
                partition_index=watched.index, error_code=error.code, high_watermark=-1
            )

    def _check(self, partition: SimPartition, watched: WatchedPartition) -> None:
        partition.leader.check_epoch(watched.wanted.current_leader_epoch)
        if not partition.leading:
            watched.watch(None)
            raise NotLeaderOrFollower
        watched.watch(partition.as_partition)
        try:
            check_replica(partition.as_partition, self._replica)
        except (NotLeaderOrFollower, UnknownLeaderEpoch):
            self._simulation.checker.counters["fetches of old incarnations"] += 1
            raise

    def _read_log(self, partition: SimPartition, watched: WatchedPartition) -> PartitionData:
        wanted, log = watched.wanted, partition.log
        offset, last_epoch = wanted.fetch_offset, wanted.last_fetched_epoch
        data = PartitionData(partition_index=watched.index, log_start_offset=log.start_offset)
        if last_epoch >= 0:
            epoch, end_offset = log.epoch_end(last_epoch)
            if end_offset < 0 or offset < log.start_offset:
                raise OffsetOutOfRange
            if epoch != last_epoch or end_offset < offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                data.high_watermark = partition.leader.high_watermark
                return data
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange
        if self._arriving:
            self._note_arrival(partition, watched)
        data.high_watermark = partition.leader.high_watermark
        data.records = log.read(offset, wanted.partition_max_bytes)
        return data

    def _note_arrival(self, partition: SimPartition, watched: WatchedPartition) -> None:
        now_ms = self._simulation.now_ms
        note_arrival(partition.as_partition, self._replica, watched, self._set, now_ms)


def _has_news(data: PartitionData) -> bool:
    return bool(data.records or data.error_code or data.diverging_epoch.epoch >= 0)
