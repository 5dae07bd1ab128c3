"""Invariants of the quorum, checked at the events that can break them.

The checker sees every replica and every disk. Its `committed` log grows with the first replica that
commits a batch; all others have to commit the same bytes.
"""

from bisect import bisect_left
from collections import Counter
from typing import Protocol

from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import Voters
from penstock.testing.sim.invariants import require
from penstock.testing.sim.quorum.storage import BatchLog, SimBatch, SimQuorumDisk


class CheckedReplica(Protocol):
    """A replica, as the checker sees it."""

    @property
    def node_id(self) -> int: ...

    @property
    def disk(self) -> SimQuorumDisk: ...


class QuorumChecker:
    """All that was ever promised by the quorum."""

    def __init__(self, voters: Voters) -> None:
        self._voter_ids = [voter.node_id for voter in voters]
        self._disks: dict[int, SimQuorumDisk] = {}
        self._leaders: dict[int, int] = {}
        self._votes: dict[tuple[int, int], int] = {}
        self._batches: dict[tuple[int, int], bytes] = {}
        self._snapshots: dict[MetadataSnapshotId, tuple[int, Voters]] = {}
        self._commit_epochs: list[int] = []  # of each committed batch: the epoch of its commit
        self.committed = BatchLog()
        self.counters: Counter[str] = Counter()

    def watch(self, node_id: int, disk: SimQuorumDisk) -> None:
        self._disks[node_id] = disk

    def note_vote(self, voter_id: int, epoch: int, candidate_id: int) -> None:
        first = self._votes.setdefault((voter_id, epoch), candidate_id)
        require(
            first == candidate_id,
            f"voter {voter_id} voted for {first} and for {candidate_id} in epoch {epoch}",
        )

    def note_leader(self, replica: CheckedReplica, epoch: int) -> None:
        leader_id = replica.node_id
        first = self._leaders.setdefault(epoch, leader_id)
        require(
            first == leader_id,
            f"nodes {first} and {leader_id} lead epoch {epoch}",
        )
        # A paused node may learn of its leadership when later epochs have committed more.
        earlier = bisect_left(self._commit_epochs, epoch)
        end_offset = self.committed.batches[earlier - 1].end_offset if earlier else 0
        require(
            self._holds(replica.disk, replica.disk.log, end_offset),
            f"node {leader_id} leads epoch {epoch} without records committed below {end_offset}",
        )

    def note_append(self, replica: CheckedReplica, batch: SimBatch) -> None:
        first = self._batches.setdefault((batch.epoch, batch.base_offset), batch.data)
        require(
            first == batch.data,
            f"node {replica.node_id} has another batch at offset {batch.base_offset} of epoch "
            f"{batch.epoch} than a node before",
        )

    def note_truncation(self, replica: CheckedReplica, offset: int) -> None:
        """Check a truncation before it is done.

        A replica of an older epoch may drop records that a later epoch has committed without it.
        """
        election = replica.disk.election
        epoch = election.leader_epoch if election is not None else 0
        for batch in replica.disk.log.batches[replica.disk.log.index_of(offset) :]:
            index = self.committed.index_of(batch.base_offset)
            if index == len(self.committed.batches) or self._commit_epochs[index] > epoch:
                continue
            require(
                self.committed.batches[index].data != batch.data,
                f"node {replica.node_id} truncates the committed batch at {batch.base_offset}",
            )

    def note_commit(self, replica: CheckedReplica, before: int, offset: int) -> None:
        """Check a moved high watermark: same bytes everywhere, and durable on a majority."""
        require(
            offset > before, f"the high watermark of node {replica.node_id} moves back to {offset}"
        )
        log, committed = replica.disk.log, self.committed
        end_offset = committed.end_offset
        for batch in log.batches[log.index_of(max(before, log.start_offset)) :]:
            if batch.end_offset > offset:
                break
            known = committed.batch_before(batch.end_offset)
            if batch.base_offset >= committed.end_offset:
                require(
                    batch.base_offset == committed.end_offset,
                    f"node {replica.node_id} commits {batch.base_offset} with a gap before it",
                )
                committed.apply(batch)
            else:
                require(
                    known is not None and known.data == batch.data,
                    f"node {replica.node_id} commits another batch at {batch.base_offset}",
                )
        require(
            offset <= committed.end_offset,
            f"node {replica.node_id} commits up to {offset} without having the records",
        )
        if committed.end_offset > end_offset:
            # The last batch of a commit is of the leader's own epoch.
            fresh = len(committed.batches) - len(self._commit_epochs)
            self._commit_epochs += [committed.batches[-1].epoch] * fresh
            self._check_durable(replica, committed.end_offset)
            self._check_epoch(replica, committed.batches[-1])

    def _check_epoch(self, replica: CheckedReplica, last: SimBatch) -> None:
        """Check that a leader commits older records only together with one of its own epoch."""
        election = replica.disk.election
        if election is not None and election.leader_id == replica.node_id:
            require(
                last.epoch == election.leader_epoch,
                f"node {replica.node_id} commits records of epoch {last.epoch} by counting them in "
                f"epoch {election.leader_epoch}",
            )

    def _check_durable(self, replica: CheckedReplica, offset: int) -> None:
        holding = [
            voter_id
            for voter_id in self._voter_ids
            if self._holds(self._disks[voter_id], self._disks[voter_id].durable_log, offset)
        ]
        require(
            len(holding) > len(self._voter_ids) // 2,
            f"node {replica.node_id} commits up to {offset}, durable on {holding} only",
        )

    def _holds(self, disk: SimQuorumDisk, log: BatchLog, offset: int) -> bool:
        """Return whether a log, or a snapshot beside it, has all committed records below offset."""
        if offset == 0 or any(each.end_offset >= offset for each in disk.snapshots):
            return True
        mine, known = log.batch_before(offset), self.committed.batch_before(offset)
        return mine is not None and known is not None and mine.data == known.data

    def note_snapshot(
        self,
        replica: CheckedReplica,
        snapshot_id: MetadataSnapshotId,
        kraft_version: int,
        voters: Voters,
    ) -> None:
        """Check a complete snapshot, own or downloaded."""
        known = self.committed.batch_before(snapshot_id.end_offset)
        require(
            known is not None and known.epoch == snapshot_id.epoch,
            f"the snapshot {snapshot_id} of node {replica.node_id} holds uncommitted records",
        )
        first = self._snapshots.setdefault(snapshot_id, (kraft_version, voters))
        require(
            first == (kraft_version, voters),
            f"the snapshot {snapshot_id} of node {replica.node_id} names other voters",
        )
