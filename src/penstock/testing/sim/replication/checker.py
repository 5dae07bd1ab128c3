"""Invariants of replication, checked at the events that can break them.

The history of a partition grows with the first leader that commits a batch. All leaders of later
epochs have to hold the same batches, and all others that commit them, too.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.replication.leader import PartitionLeader
from penstock.testing.sim.invariants import require
from penstock.testing.sim.replication.storage import ReplicatedBatch, SimReplicaLog


class JudgedReplica(Protocol):
    """A replica, as the checker sees it."""

    @property
    def index(self) -> int: ...

    @property
    def leader(self) -> PartitionLeader: ...

    @property
    def log(self) -> SimReplicaLog: ...


class AcknowledgedBatch(NamedTuple):
    base_offset: int
    end_offset: int
    data: bytes


class PartitionHistory:
    """All that was ever promised about one partition."""

    def __init__(self) -> None:
        self.committed = SimReplicaLog()
        self.commit_epochs: list[int] = []  # of each committed batch: the epoch of its commit
        self.acknowledged: list[AcknowledgedBatch] = []
        self.deleted_to = 0
        self.batches: dict[tuple[int, int], bytes] = {}
        self.watermarks: dict[tuple[int, int], int] = {}  # by leader and epoch


class ReplicationChecker:
    """The histories of all partitions, and counters of events."""

    def __init__(self, partitions: int) -> None:
        self.histories = [PartitionHistory() for _ in range(partitions)]
        self.counters: Counter[str] = Counter()
        # How many live replicas hold what is committed; None where a cut may take it from them
        self.holders: Callable[[int, int], int] | None = None

    def note_leader(self, replica: JudgedReplica) -> None:
        """Check that a new leader holds all that leaders of earlier epochs have committed."""
        leader, log, history = replica.leader, replica.log, self.histories[replica.index]
        # A paused node may learn of its leadership when later epochs have committed more.
        earlier = bisect_left(history.commit_epochs, leader.epoch)
        end_offset = history.committed.batches[earlier - 1].end_offset if earlier else 0
        require(
            self._holds(history, log, end_offset),
            f"{replica} leads epoch {leader.epoch} without records committed below {end_offset}",
        )
        require(
            log.start_offset <= history.deleted_to,
            f"{replica} leads from {log.start_offset}, deleted is {history.deleted_to}",
        )
        self.check_watermark(replica)

    def _holds(self, history: PartitionHistory, log: SimReplicaLog, end_offset: int) -> bool:
        """Return whether a log has all committed records below an offset that are not deleted.
        Equal batches at the end mean equal logs before. Deleted records may differ: a leader with
        nothing else has no epochs of them to compare."""
        if end_offset <= history.deleted_to:
            return log.end_offset >= end_offset
        mine, known = log.batch_before(end_offset), history.committed.batch_before(end_offset)
        return mine is not None and known is not None and mine.data == known.data

    def note_join(self, index: int, node_id: int, log: SimReplicaLog) -> None:
        """Check a live replica that the controller adds to the in-sync set."""
        history = self.histories[index]
        require(
            self._holds(history, log, history.committed.end_offset),
            f"{index} on node {node_id} joins the in-sync set without committed records",
        )

    def note_append(self, replica: JudgedReplica, batch: ReplicatedBatch) -> None:
        require(
            batch.base_offset == replica.log.end_offset,
            f"{replica} appends {batch.base_offset} where {replica.log.end_offset} is due",
        )
        history = self.histories[replica.index]
        first = history.batches.setdefault((batch.base_offset, batch.epoch), batch.data)
        require(
            first == batch.data,
            f"{replica} has another batch {batch.base_offset} of epoch {batch.epoch} than the node "
            "before",
        )

    def note_truncation(self, replica: JudgedReplica, offset: int, epoch: int) -> None:
        """Check a truncation before it is done. A replica of an older epoch may drop records that a
        later epoch has committed without it."""
        log, history = replica.log, self.histories[replica.index]
        for batch in log.batches[log.index_of(offset) :]:
            if batch.end_offset <= history.deleted_to:
                continue
            index = history.committed.index_of(batch.base_offset)
            if index == len(history.commit_epochs) or history.commit_epochs[index] > epoch:
                continue
            require(
                history.committed.batches[index].data != batch.data,
                f"{replica} truncates the committed batch at {batch.base_offset} in epoch {epoch}",
            )

    def check_watermark(self, replica: JudgedReplica) -> None:
        """Check a high watermark that comes from a checkpoint or from a leader."""
        high_watermark = replica.leader.high_watermark
        known = self.histories[replica.index].committed.end_offset
        require(
            high_watermark <= known,
            f"{replica} has the high watermark {high_watermark}, {known} is committed",
        )
        require(
            replica.log.start_offset <= high_watermark,
            f"{replica} has the high watermark {high_watermark} below the start of its log",
        )

    def note_commit(self, replica: JudgedReplica, node_id: int) -> None:
        """Check the moved high watermark of a leader: equal batches, on enough replicas."""
        leader, log, history = replica.leader, replica.log, self.histories[replica.index]
        committed, key = history.committed, (node_id, leader.epoch)
        before = history.watermarks.get(key, 0)
        require(
            leader.high_watermark >= before,
            f"the high watermark of {replica} moves back to {leader.high_watermark}",
        )
        history.watermarks[key] = leader.high_watermark
        end_offset = committed.end_offset
        for batch in log.batches[log.index_of(before) :]:
            if batch.end_offset > leader.high_watermark:
                break
            if batch.end_offset <= history.deleted_to and batch.end_offset <= end_offset:
                continue
            if batch.base_offset >= committed.end_offset:
                require(
                    batch.base_offset == committed.end_offset,
                    f"{replica} commits {batch.base_offset} with a gap before it",
                )
                committed.append(batch)
                history.commit_epochs.append(leader.epoch)
            else:
                known = committed.batches[committed.index_of(batch.base_offset)]
                require(
                    known.data == batch.data,
                    f"{replica} commits another batch at {batch.base_offset}",
                )
        if committed.end_offset > end_offset and self.holders is not None:
            holders = self.holders(replica.index, committed.end_offset)
            require(
                holders >= leader.min_insync,
                f"{replica} commits {committed.end_offset} on {holders} replicas only",
            )

    def holds_committed(self, index: int, log: SimReplicaLog, end_offset: int) -> bool:
        return self._holds(self.histories[index], log, end_offset)

    def note_acknowledged(self, index: int, batch: ReplicatedBatch) -> None:
        self.counters["acknowledged"] += 1
        known = AcknowledgedBatch(batch.base_offset, batch.end_offset, batch.data)
        self.histories[index].acknowledged.append(known)

    def check_acknowledged(self, replica: JudgedReplica) -> None:
        """Check that a leader has all that was acknowledged and not deleted."""
        log, history = replica.log, self.histories[replica.index]
        for batch in history.acknowledged:
            if batch.end_offset <= history.deleted_to:
                continue
            mine = log.batch_before(batch.end_offset)
            require(
                mine is not None and mine.data == batch.data,
                f"{replica} has lost the acknowledged batch at {batch.base_offset}",
            )
