"""Invariants of replicated partitions, checked when logs, high watermarks and leaders change.

The committed history of a partition grows with the first leader whose high watermark passes a
batch. All replicas have to commit the same bytes, and each later leader has to have all of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.log.log import Log
from penstock.model import INTERNAL_TOPICS, TopicPartition
from penstock.replication.leader import PartitionLeader
from penstock.testing.sim.cluster.metadata_history import BatchHistory, BatchPrint
from penstock.testing.sim.cluster.segment_reader import read_log
from penstock.testing.sim.invariants import require
from penstock.wire.batch import (
    ATTRIBUTES,
    CONTROL,
    LENGTH,
    LENGTH_OVERHEAD,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TRANSACTIONAL,
    Header,
    batch_headers,
    read_marker,
)

ALL_REPLICAS = -1  # acks


class WatchedReplica:
    """One replica in one life of its node: the batches in its log, and its high watermark."""

    __slots__ = ("history", "name", "node_id", "partition", "watermark")

    def __init__(self, node_id: int, partition: Partition, history: BatchHistory) -> None:
        self.node_id = node_id
        self.partition = partition
        self.name = TopicPartition(partition.topic, partition.index)
        self.history = history
        self.watermark = 0  # compared up to here

    def __str__(self) -> str:
        return f"{self.name} on node {self.node_id}"


class PartitionChecker:
    """The replicas of all nodes, beside the committed history of each partition."""

    def __init__(self, counters: Counter[str], *, may_lose: bool) -> None:
        """Watch no replica so far. With `may_lose` deaths go beyond the promises, and lost records
        are counted only."""
        self.committed: dict[TopicPartition, BatchHistory] = {}
        self.lost: dict[TopicPartition, str] = {}  # partitions that have lost records, and how
        self.tell: Callable[[str], None] = lambda _event: None
        self.on_leader: Callable[[int], None] = lambda _node_id: None
        self.trimmed: Mapping[TopicPartition, int] = {}  # deletions of records that were asked for
        self._counters = counters
        self._may_lose = may_lose
        self._by_log: dict[Log, WatchedReplica] = {}
        self._by_leader: dict[PartitionLeader, WatchedReplica] = {}
        self._by_broker: dict[tuple[TopicPartition, object], WatchedReplica] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}  # by epoch
        self._committing_epochs: dict[TopicPartition, int] = {}  # of the last committed batches
        self._last_leaders: dict[TopicPartition, int] = {}
        self._answering: Partition | None = None
        self._sealed: set[tuple[int, int]] = set()  # producers whose transaction has a new owner
        self._late: set[tuple[TopicPartition, BatchPrint]] = set()  # their later batches
        # Of markers that leaders have written: the producer, and the epoch of its coordinator.
        self._markers: dict[tuple[TopicPartition, BatchPrint], tuple[int, int]] = {}
        self._coordinator_epochs: dict[tuple[TopicPartition, int], int] = {}  # of committed markers

    def _breaks(self, replica: WatchedReplica, rule: str) -> None:
        """Raise for a broken rule, or count it in a run beyond the promises."""
        require(self._may_lose, rule)
        self.lost.setdefault(replica.name, rule)
        self._counters["partitions that lost records"] = len(self.lost)

    def _history(self, name: TopicPartition) -> BatchHistory:
        return self.committed.setdefault(name, BatchHistory())

    # -- lives of replicas

    def adopts(self, replicas: Replicas, partition: Partition) -> None:
        """Watch a replica whose log is open. Its high watermark is that of the checkpoint."""
        broker = replicas._broker
        replica = WatchedReplica(broker.node_id, partition, read_log(partition.log))
        self._by_log[partition.log] = self._by_leader[partition.leader] = replica
        self._by_broker[replica.name, broker] = replica
        self._compare(replica, partition.leader.high_watermark)

    # -- logs

    def stores(self, log: Log, data: bytes) -> None:
        replica = self._by_log.get(log)
        if replica is None:
            return
        added = replica.history.append(data)
        if replica.partition.leading:
            for batch, (position, header) in zip(added, batch_headers(data), strict=True):
                if header[ATTRIBUTES] & TRANSACTIONAL:
                    self._note_transactional(replica.name, batch, header, data[position:])

    def _note_transactional(
        self, name: TopicPartition, batch: BatchPrint, header: Header, data: bytes
    ) -> None:
        """Note the markers of a leader, and the batches of former owners of transactions."""
        if header[ATTRIBUTES] & CONTROL:
            marker = read_marker(data[: LENGTH_OVERHEAD + header[LENGTH]])
            if marker is not None:
                self._markers[name, batch] = header[PRODUCER_ID], marker[1]
        elif (header[PRODUCER_ID], header[PRODUCER_EPOCH]) in self._sealed:
            self._late.add((name, batch))

    def seal(self, producer_id: int, producer_epoch: int) -> None:
        """Note that a transaction has a new owner: all that its producer writes from now on must
        not be committed."""
        self._sealed.add((producer_id, producer_epoch))

    def truncates(self, log: Log, kept_to: int, end_offset: int) -> None:
        """Check that no committed batch leaves a log: those below `kept_to` stay."""
        replica = self._by_log.get(log)
        if replica is None:
            return
        history, committed = replica.history, self._history(replica.name)
        removed = history.between(kept_to, history.end_offset)
        if removed:
            self._counters["truncations of replicas"] += 1
            self.tell(f"{replica} is cut from {history.end_offset} to {end_offset}")
        history.truncate(kept_to)
        if replica.name in self.lost:
            return
        trimmed = self.trimmed.get(replica.name, 0)  # its leader's log may begin there
        for batch in removed:
            if batch.base_offset >= trimmed and committed.ending_at(batch.end_offset) == batch:
                self._breaks(
                    replica,
                    f"{replica} truncates to {end_offset}, and {batch.base_offset} to "
                    f"{batch.end_offset} is committed",
                )
                return

    def out_of_range(self) -> None:
        """Count a follower whose leader has no records at its end."""
        self._counters["followers out of range"] += 1

    # -- high watermarks

    def advanced(self, leader: PartitionLeader) -> None:
        """Note that the high watermark of a leader has moved."""
        replica = self._by_leader.get(leader)
        if replica is None:
            return
        require(
            leader.high_watermark >= replica.watermark or replica.name in self.lost,
            f"{replica} leads, and its high watermark moves back to {leader.high_watermark}",
        )
        if leader.high_watermark > replica.watermark:
            self._commit(replica, leader.high_watermark)
            self._compare(replica, leader.high_watermark)

    def follows(self, partition: Partition) -> None:
        """Note the high watermark that a follower has taken over."""
        replica = self._by_log.get(partition.log)
        if replica is not None:
            self._compare(replica, partition.leader.high_watermark)

    def _commit(self, replica: WatchedReplica, offset: int) -> None:
        """Let the committed history grow with the batches of a leader."""
        committed = self._history(replica.name)
        if offset <= committed.end_offset:
            return
        self._committing_epochs[replica.name] = replica.partition.leader.epoch
        for batch in replica.history.between(committed.end_offset, offset):
            if batch.base_offset != committed.end_offset and replica.name not in self.lost:
                self._breaks(
                    replica,
                    f"{replica} commits {batch.base_offset}, and {committed.end_offset} is due",
                )
            committed.batches.append(batch)
            self._check_producer(replica, batch)

    def _check_producer(self, replica: WatchedReplica, batch: BatchPrint) -> None:
        """Check that a committed batch is none of a former owner of its transaction, and no marker
        of a coordinator that another one has replaced."""
        key = replica.name, batch
        require(
            key not in self._late,
            f"{replica} commits {batch.base_offset} of a producer whose transaction has had a new "
            "owner before",
        )
        if key in self._markers:
            producer_id, epoch = self._markers[key]
            before = self._coordinator_epochs.get((replica.name, producer_id), -1)
            require(
                epoch >= before or replica.name in self.lost,
                f"{replica} commits a marker of coordinator epoch {epoch} for producer "
                f"{producer_id}, after one of {before}",
            )
            self._coordinator_epochs[replica.name, producer_id] = epoch

    def _compare(self, replica: WatchedReplica, watermark: int) -> None:
        """Compare the log below the high watermark of a replica with the committed history. Deleted
        records may differ: a leader without them knows no epoch from which they could be cut."""
        before, replica.watermark = replica.watermark, watermark
        if watermark <= before or replica.name in self.lost:
            return
        committed = self._history(replica.name)
        if watermark > committed.end_offset:
            self._breaks(
                replica,
                f"{replica} has the high watermark {watermark}, and records below "
                f"{committed.end_offset} are committed",
            )
            return
        for batch in replica.history.between(before, watermark):
            if committed.ending_at(
                batch.end_offset
            ) != batch and batch.end_offset > self._deleted_to(replica.name):
                self._breaks(replica, f"{replica} commits another batch at {batch.base_offset}")
                return

    def _deleted_to(self, name: TopicPartition) -> int:
        """Return the largest log start of the replicas of a partition."""
        return max(
            each.partition.log.start_offset for each in self._by_log.values() if each.name == name
        )

    # -- leaders

    def leads(self, leader: PartitionLeader) -> None:
        """Check a leader at the begin of its epoch: one per epoch, with all committed records."""
        replica, epoch = self._by_leader.get(leader), leader.epoch
        if replica is None:
            return
        replica.watermark = leader.high_watermark
        name, node_id = replica.name, replica.node_id
        first = self._leaders.setdefault((name, epoch), node_id)
        require(first == node_id, f"nodes {first} and {node_id} lead {name} in epoch {epoch}")
        self._counters["partition leaders"] += 1
        if self._last_leaders.get(name, node_id) != node_id:
            self._counters["partition fail-overs"] += 1
            self._counters["coordinators moved"] += name.topic in INTERNAL_TOPICS
            self.on_leader(node_id)
        self._last_leaders[name] = node_id
        self.tell(f"{replica} leads epoch {epoch} from {replica.history.end_offset}")
        self._require_complete(replica)

    def _require_complete(self, replica: WatchedReplica) -> None:
        """Check that a leader has all that earlier leaders have committed. A late one, whose epoch
        is over elsewhere, need not have the records of later leaders."""
        epoch = replica.partition.leader.epoch
        is_late = epoch < self._committing_epochs.get(replica.name, -1)
        last = None if is_late else self._missing(replica)
        if last is not None:
            self._breaks(
                replica,
                f"{replica} leads with records up to {replica.history.end_offset}, and "
                f"{last.base_offset} to {last.end_offset} is committed otherwise",
            )

    def _missing(self, replica: WatchedReplica) -> BatchPrint | None:
        """Return the last committed batch of a partition if a replica lacks it."""
        committed = self._history(replica.name)
        if not committed.batches or replica.name in self.lost:
            return None
        last = committed.batches[-1]
        start_offset = replica.partition.log.start_offset
        if start_offset >= last.end_offset or replica.history.ending_at(last.end_offset) == last:
            return None
        return last

    def check_eligible(self, name: TopicPartition, broker: Broker) -> None:
        """Check that a replica which may be elected has all committed records."""
        replica = self._by_broker.get((name, broker))
        if replica is None:
            require(
                not self._history(name).batches or name in self.lost,
                f"{name} may be led by node {broker.node_id}, which has lost its files",
            )
        elif (last := self._missing(replica)) is not None:
            self._breaks(
                replica,
                f"{replica} may lead with records up to {replica.history.end_offset}, and "
                f"{last.base_offset} to {last.end_offset} is committed otherwise",
            )

    # -- acknowledgements

    def answers(self, partition: Partition | None) -> Partition | None:
        """Note whose producers get their answers now; return the partition before."""
        before, self._answering = self._answering, partition
        return before

    def acknowledges(self, answer: Any, base_offset: int) -> None:
        """Check that a record with acks=all is committed when it is acknowledged."""
        partition = self._answering
        if partition is None or answer.acks != ALL_REPLICAS or base_offset < 0:
            return
        name = TopicPartition(partition.topic, partition.index)
        if name not in self.lost:
            end_offset = self._history(name).end_offset
            require(
                base_offset < end_offset,
                f"{name} acknowledges {base_offset}, and records below {end_offset} are committed",
            )
