"""The metadata quorum of a node: the shell around the machine, for one voter so far.

The machine decides (machine.py); the shell performs its effects in order, on the files of the node.
Quorum satisfies machine.ReplicatedLog. Invariants: an epoch is on disk before it is used; only what
is synced counts as committed, and the committed offset never moves back.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.errors import KafkaStorageError, NotController, RecordListTooLarge
from penstock.raft.control import control_record
from penstock.raft.errors import NotAVoter, NotServedYet, QuorumFilesCorrupt
from penstock.raft.log_view import EpochStart, LogView
from penstock.raft.machine import QuorumMachine
from penstock.raft.protocols import (
    BATCH_BYTES_MAX,
    MetadataLog,
    QuorumFiles,
    SnapshotWriter,
)
from penstock.raft.quorum_effects import (
    AppendControl,
    CutLog,
    HighWatermarkMoved,
    LeaderChanged,
    LeadershipGained,
    PersistElection,
    QuorumEffect,
    SyncLog,
)
from penstock.raft.quorum_events import LeaderAppended, LogSynced, QuorumEvent, SnapshotWritten
from penstock.raft.quorum_reader import QuorumReader, read_voters
from penstock.raft.quorum_state import QuorumState
from penstock.raft.replica import ReplicaSettings
from penstock.raft.roles import FOREVER
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot, snapshot_batches
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import KRAFT_VERSION_MAX, QuorumVoter, Voters
from penstock.raft.writing import BatchWriting, LogBatch
from penstock.wire.batch import build_batch
from penstock.world import Clock, DiskFailed, DiskFull, Done

log = logging.getLogger("penstock.quorum")


class Follower(Protocol):
    def gained(self) -> None: ...
    def lost(self) -> None: ...
    def committed(self, offset: int) -> None: ...


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """`voter_ids` is controller.quorum.voters where it is set (kraft.version 0)."""

    voter_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QuorumView:
    """The quorum, as DescribeQuorum shows it."""

    leader_id: int
    epoch: int
    high_watermark: int
    end_offset: int
    voters: Voters
    kraft_version: int


class Quorum:
    """The only voter. `encode` and `decode` turn the machine's records into bytes and back."""

    def __init__(
        self,
        files: QuorumFiles,
        clock: Clock,
        me: QuorumVoter,
        settings: QuorumSettings,
        *,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        failed: Callable[[DiskFailed], None],
    ) -> None:
        self._files = files
        self._clock = clock
        self._me = me
        self._settings = settings
        self._encode = encode
        self._decode = decode
        self._failed = failed
        self._log: MetadataLog | None = None
        self._machine: QuorumMachine | None = None
        self._effects: deque[QuorumEffect] = deque()
        self._performing = False
        self._follower: Follower | None = None
        self._leading = False
        self._snapshot: Snapshot | None = None  # the one that was loaded; let go after the load
        self._writing: SnapshotWriter | None = None
        self._bytes_since_snapshot = 0

    # Start and stop

    def start(self) -> None:
        """Find the end of the log, take the next epoch and lead. Waits for the disk."""
        others = [voter for voter in self._settings.voter_ids if voter != self._me.node_id]
        if others:
            raise NotServedYet(
                f"controller.quorum.voters names {len(self._settings.voter_ids)} voters; a quorum "
                f"of more than one is not served yet. Leave only node {self._me.node_id} in it."
            )
        self._files.prepare_now()
        self._snapshot = snapshot = self._files.load_newest_snapshot_now()
        floor = snapshot.id.end_offset if snapshot else 0
        self._log = self._files.open_log(floor)
        if self._log.start_offset > floor:
            raise QuorumFilesCorrupt(
                f"The metadata log in {self._files.path} starts at offset "
                f"{self._log.start_offset}, and no snapshot covers what comes before. Restore the "
                "newest snapshot from a copy."
            )
        history = VoterHistory(configured=(self._me,))
        if snapshot is not None:
            history.load(floor, snapshot.kraft_version, snapshot.voters)
        self._bytes_since_snapshot = read_voters(self._log, floor, history)
        self._check_voters(history)
        stored = self._files.load_state_now()
        self._machine = machine = QuorumMachine(
            self._me, ReplicaSettings(cluster_id=""), self._view_log(), history, lambda _limit: 0
        )
        self._perform(machine.start(stored, self._clock.mono_ms()))
        assert machine.is_leader, "the only voter leads at once"
        assert machine.wake_up_ms == FOREVER, "the only voter waits for no other"

    def _view_log(self) -> LogView:
        opened = self._opened()
        newest = self._snapshot.id if self._snapshot else None
        return LogView(
            opened.start_offset,
            opened.end_offset,
            [EpochStart(*each) for each in opened.epoch_starts()],
            # A snapshot that is newer than the loaded one is not whole.
            [each for each in self._files.stored_snapshots() if newest and each.id <= newest],
        )

    def stop(self) -> None:
        self._step_down()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _check_voters(self, history: VoterHistory) -> None:
        if history.kraft_version > KRAFT_VERSION_MAX:
            raise NotServedYet(
                f"The metadata log is at kraft.version {history.kraft_version}; this server knows "
                f"up to {KRAFT_VERSION_MAX}. Start it with a newer server."
            )
        if history.kraft_version == 0:
            return
        known = [voter for voter in history.latest if voter.node_id == self._me.node_id]
        if not known:
            ids = ", ".join(str(voter.node_id) for voter in history.latest) or "nobody"
            raise NotAVoter(
                f"The metadata log names {ids} as voters, not node {self._me.node_id}. Use the "
                "node.id that this directory was formatted with."
            )
        if len(history.latest) > 1:
            raise NotServedYet(
                f"The metadata log names {len(history.latest)} voters; a quorum of more than one "
                "is not served yet. Remove the other voters with kafka-metadata-quorum first."
            )
        if known[0].directory_id != self._me.directory_id:
            raise NotAVoter(
                f"Node {self._me.node_id} votes with another metadata directory than this one. Use "
                "the directory that was formatted for it."
            )

    def _opened(self) -> MetadataLog:
        assert self._log is not None, "start() opens the log"
        return self._log

    def _running(self) -> QuorumMachine:
        assert self._machine is not None, "start() makes the machine"
        return self._machine

    # Effects

    def _step(self, event: QuorumEvent) -> None:
        self._perform(self._running().step(event, self._clock.mono_ms()))

    def _perform(self, effects: list[QuorumEffect]) -> None:
        """Perform effects in order; those of an event in between come last."""
        self._effects += effects
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects:
                self._perform_one(self._effects.popleft())
        finally:
            self._performing = False

    def _perform_one(self, effect: QuorumEffect) -> None:
        match effect:
            case PersistElection():
                self._store_state(effect.state)
            case AppendControl():
                self._append_control(effect)
            case SyncLog():
                self._sync()
            case HighWatermarkMoved():
                if self._follower is not None:
                    self._follower.committed(effect.offset)
            case LeadershipGained():
                self._leading = True
            case CutLog():
                self._files.delete_old_snapshots()
                self._opened().delete_before(effect.start_offset)
            case LeaderChanged():
                pass
            case _:
                raise AssertionError(f"the only voter does not ask for {type(effect).__name__}")

    def _store_state(self, state: QuorumState) -> None:
        history = self._running().replica.history
        voter_ids = tuple(voter.node_id for voter in history.latest)
        try:
            self._files.store_state_now(state, voter_ids, history.kraft_version)
        except DiskFull as failure:
            # The only voter finds the epoch in the log again, which gets it before anything counts.
            log.warning(
                "%s; the epoch %d is in the metadata log alone", failure, state.leader_epoch
            )

    def _append_control(self, effect: AppendControl) -> None:
        now_ms, base_offset = self._clock.wall_ms(), effect.base_offset
        records = [
            control_record(base_offset + index, now_ms, message)
            for index, message in enumerate(effect.messages)
        ]
        self._store(
            build_batch(records, base_offset=base_offset, leader_epoch=effect.epoch, control=True)
        )

    # ReplicatedLog

    @property
    def end_offset(self) -> int:
        return self._opened().end_offset

    @property
    def committed_offset(self) -> int:
        return max(0, self._machine.high_watermark) if self._machine else 0

    @property
    def epoch(self) -> int:
        return self._machine.epoch if self._machine else 0

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def append(self, records: Sequence[Any]) -> LogBatch:
        """Write one atomic batch, which is committed after its sync."""
        writing = self.begin()
        writing.add(records)
        return writing.finish()

    def begin(self) -> BatchWriting:
        """Return a batch that is encoded in pieces."""
        return BatchWriting(self._encode, self._clock.wall_ms(), self._finish)

    def _finish(self, writing: BatchWriting) -> LogBatch:
        if not self._leading:
            raise NotController("This node does not lead the metadata quorum.")
        data = writing.seal(self.end_offset, self.epoch)
        self._store(data)
        batch = LogBatch(writing.records, self.end_offset, self.epoch, writing.now_ms)
        self._step(LeaderAppended(data))
        return batch

    def _store(self, data: bytes) -> None:
        log = self._opened()
        if len(data) > BATCH_BYTES_MAX:
            raise RecordListTooLarge(
                f"The change needs {len(data)} bytes of metadata at once; at most "
                f"{BATCH_BYTES_MAX} are possible. Split it into several requests."
            )
        try:
            log.append(data)
        except DiskFull as failure:
            # Nothing of it remains: only this change is refused, reads and deletions go on.
            raise KafkaStorageError(
                f"No room for metadata in {self._files.path} ({failure}). Free some space."
            ) from failure
        except DiskFailed as failure:
            self._fail(failure)
            raise
        self._bytes_since_snapshot += len(data)

    def _sync(self) -> None:
        """Sync the batches written so far; the machine asks for one sync at a time."""

        def synced(failure: DiskFailed | None) -> None:
            if not self._leading:
                return
            if failure is not None:
                self._fail(failure)
                return
            self._step(LogSynced())

        self._opened().flush(synced)

    def _fail(self, failure: DiskFailed) -> None:
        """Stop leading after a failure of the disk, and report it to the node."""
        self._step_down()
        self._failed(failure)

    def _step_down(self) -> None:
        self._leading = False
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if self._follower is not None:
            self._follower.lost()

    def read(self) -> "QuorumReader":
        """Return a reader of the snapshot and the log behind it."""
        snapshot, self._snapshot = self._snapshot, None
        newest = self.snapshot_id
        if snapshot is None and newest is not None:
            snapshot = self._files.read_snapshot_now(newest)
        return QuorumReader(self._opened(), snapshot, self._decode)

    # Snapshots

    @property
    def snapshot_id(self) -> MetadataSnapshotId | None:
        """Return the id of the newest complete snapshot, or None."""
        return self._machine.replica.log.latest_snapshot if self._machine else None

    @property
    def bytes_since_snapshot(self) -> int:
        return self._bytes_since_snapshot

    @property
    def writing_snapshot(self) -> bool:
        return self._writing is not None

    def write_snapshot(
        self,
        snapshot_id: MetadataSnapshotId,
        values: Iterator[bytes],
        timestamp_ms: int,
        done: Done,
    ) -> None:
        """Write a snapshot in slices; `values` are the records of the committed state."""
        assert self._writing is None, "one snapshot at a time"
        assert snapshot_id.end_offset <= self.committed_offset, (
            "a snapshot holds committed records only"
        )
        history = self._running().replica.history
        batches = snapshot_batches(
            snapshot_id,
            values,
            timestamp_ms=timestamp_ms,
            now_ms=self._clock.wall_ms(),
            kraft_version=history.kraft_version_before(snapshot_id.end_offset),
            voters=history.voters_before(snapshot_id.end_offset),
        )
        size_bytes = 0

        def counted() -> Iterator[bytes]:
            nonlocal size_bytes
            for batch in batches:
                size_bytes += len(batch)
                yield batch

        bytes_before = self._bytes_since_snapshot

        def written(failure: DiskFailed | None) -> None:
            self._writing = None
            # After a full disk too: the next attempt waits until it is due again.
            self._bytes_since_snapshot -= bytes_before
            if failure is None:
                self._step(SnapshotWritten(snapshot_id, size_bytes))
            elif not isinstance(failure, DiskFull):
                self._fail(failure)
            done(failure)

        self._writing = self._files.snapshot_writer(snapshot_id, counted(), written)
        self._writing.start()

    def describe(self) -> QuorumView:
        history = self._running().replica.history
        return QuorumView(
            leader_id=self._me.node_id if self._leading else -1,
            epoch=self.epoch,
            high_watermark=self.committed_offset,
            end_offset=self.end_offset,
            voters=history.latest,
            kraft_version=history.kraft_version,
        )
