"""The metadata quorum of a node: the shell around the machine.

The machine decides (machine.py); the shell performs its effects strictly in order, on the files and
links of the node. An effect that waits for the disk holds up all later ones. Quorum satisfies
machine.ReplicatedLog. Invariants: an epoch and a vote are on disk before a message rests on them;
only synced records count as committed, and the committed offset never moves back.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from penstock.errors import (
    InconsistentClusterId,
    KafkaStorageError,
    NotController,
    RecordListTooLarge,
)
from penstock.raft.control import control_record
from penstock.raft.description import QuorumView, view_quorum
from penstock.raft.errors import (
    CommittedTruncation,
    NotAVoter,
    NotServedYet,
    QuorumFilesCorrupt,
)
from penstock.raft.log_view import EpochStart, LogView
from penstock.raft.machine import QuorumMachine
from penstock.raft.protocols import (
    BATCH_BYTES_MAX,
    MetadataLog,
    QuorumFiles,
    QuorumTransport,
)
from penstock.raft.quorum_effects import (
    AppendBatches,
    AppendControl,
    CutLog,
    DropDownload,
    HighWatermarkMoved,
    InstallSnapshot,
    LeaderChanged,
    LeadershipGained,
    LeadershipLost,
    PersistElection,
    QuorumEffect,
    SendReply,
    SendRequest,
    StoreSlice,
    SyncLog,
    TruncateLog,
)
from penstock.raft.quorum_events import (
    AnswerArrived,
    LeaderAppended,
    LogSynced,
    QuorumEvent,
    QuorumRequest,
    QuorumResponse,
    RequestArrived,
    RequestFailed,
    ResignRequested,
    ShutdownRequested,
    TimePassed,
)
from penstock.raft.quorum_reader import QuorumReader, read_voters
from penstock.raft.quorum_replies import QuorumReplies
from penstock.raft.quorum_snapshots import QuorumSnapshots
from penstock.raft.replica import ReplicaSettings
from penstock.raft.roles import FOREVER
from penstock.raft.snapshot import MetadataSnapshotId, Snapshot, snapshot_batches
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import KRAFT_VERSION_MAX, QuorumVoter, VoterEndpoint, Voters
from penstock.raft.writing import BatchWriting, LogBatch
from penstock.wire.batch import LENGTH, LENGTH_OVERHEAD, batch_headers, build_batch
from penstock.world import Clock, Cold, DiskFailed, DiskFull, Done, Timer, Timers

log = logging.getLogger("penstock.quorum")

ROOM_RETRY_MS = 100  # between two attempts to write to a full disk
ROOM_WARNING_MS = 10_000  # between two log lines about it


class Follower(Protocol):
    def gained(self) -> None: ...
    def lost(self) -> None: ...
    def committed(self, offset: int) -> None: ...


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """`voters` is controller.quorum.voters where it is set (kraft.version 0). `is_sole` is true of
    a node whose configuration knows no other controller."""

    replica: ReplicaSettings
    voters: Voters = ()
    is_sole: bool = True


class Quorum:
    """One replica of the metadata log. `encode` and `decode` turn the machine's records into bytes
    and back. `random_below(n)` returns a number from 0 to n - 1. `failed` gets the failure of the
    disk, `diverged` the text about a quorum that this node cannot belong to."""

    def __init__(
        self,
        files: QuorumFiles,
        clock: Clock,
        timers: Timers,
        me: QuorumVoter,
        settings: QuorumSettings,
        transport: QuorumTransport,
        random_below: Callable[[int], int],
        *,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        failed: Callable[[DiskFailed], None],
        diverged: Callable[[str], None],
    ) -> None:
        self._files = files
        self._clock = clock
        self._timers = timers
        self._me = me
        self._settings = settings
        self._transport = transport
        self._random_below = random_below
        self._encode = encode
        self._decode = decode
        self._failed = failed
        self._diverged = diverged
        self._replies = QuorumReplies(files, self._opened, self._still_leads)
        self._snapshots = QuorumSnapshots(
            files, self._open_log, self._step, self._fail, self._retry_while_waiting
        )
        self._log: MetadataLog | None = None
        self._machine: QuorumMachine | None = None
        self._effects: deque[QuorumEffect] = deque()
        self._performing = False
        self._waiting = False  # an effect waits for the disk
        self._starting = False
        self._broken = False  # the node is about to give up
        self._warns_of_room_at_ms = 0.0
        self._strangers: dict[int, bool] = {}  # does a node that answers belong to another cluster
        self._timer: Timer | None = None
        self._timer_ms = FOREVER
        self._follower: Follower | None = None
        self.on_leader: Callable[[], None] = lambda: None  # leader or epoch have changed
        self._gained_epoch: int | None = None  # of the leadership that the follower knows of
        self._committed_offset = 0

    # Start and stop

    def start(self) -> None:
        """Find the end of the log and take part in the quorum. Waits for the disk; a sole voter
        leads at once."""
        self._files.prepare_now()
        self._snapshots.loaded = snapshot = self._files.load_newest_snapshot_now()
        floor = snapshot.id.end_offset if snapshot else 0
        self._log = self._files.open_log(snapshot.id if snapshot else None)
        if self._log.start_offset > floor:
            raise QuorumFilesCorrupt(
                f"The metadata log in {self._files.path} starts at offset "
                f"{self._log.start_offset}, and no snapshot covers what comes before. Restore the "
                "newest snapshot from a copy."
            )
        history = VoterHistory(configured=self._configured_voters())
        if snapshot is not None:
            history.load(floor, snapshot.kraft_version, snapshot.voters)
        self._snapshots.bytes_since = read_voters(self._log, self._files.path, floor, history)
        self._check_voters(history)
        is_only = [each.node_id for each in history.latest] == [self._me.node_id]
        never_votes = not self._settings.replica.may_become_voter
        is_new = floor == 0 and not self._log.epoch_starts()
        stored = self._files.load_state_now(
            may_be_empty=is_only, may_be_missing=is_only or never_votes or is_new
        )
        self._machine = machine = QuorumMachine(
            self._me, self._settings.replica, self._view_log(), history, self._random_below
        )
        self._starting = True
        self._perform(machine.start(stored, self._clock.mono_ms()))
        self._starting = False
        assert machine.is_leader or not self.is_only_voter, "the only voter leads at once"

    def _configured_voters(self) -> Voters:
        """Return the voters of kraft.version 0: those of the configuration, or a sole node."""
        if self._settings.is_sole:
            return (self._me,)
        return self._settings.voters

    def _view_log(self) -> LogView:
        opened = self._opened()
        loaded = self._snapshots.loaded
        newest = loaded.id if loaded else None
        return LogView(
            opened.start_offset,
            opened.end_offset,
            [EpochStart(*each) for each in opened.epoch_starts()],
            # A snapshot that is newer than the loaded one is not whole.
            [each for each in self._files.stored_snapshots() if newest and each.id <= newest],
        )

    def shut_down(self) -> None:
        """Resign, and begin no election: the node is about to stop."""
        if self._machine is not None:
            self._step(ShutdownRequested())

    @property
    def may_stop(self) -> bool:
        """Return whether no other node waits for this one's leadership."""
        return self._machine is None or self._machine.may_stop

    def stop(self) -> None:
        self._step_down()
        opened = self._log
        self.kill()
        if opened is not None:
            opened.close()

    def kill(self) -> None:
        """Stop at once; callbacks that come later do nothing."""
        self._log = None
        self._effects.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_voters(self, history: VoterHistory) -> None:
        if history.kraft_version > KRAFT_VERSION_MAX:
            raise NotServedYet(
                f"The metadata log is at kraft.version {history.kraft_version}; this server knows "
                f"up to {KRAFT_VERSION_MAX}. Start it with a newer server."
            )
        if history.kraft_version == 0:
            return
        ids = ", ".join(str(voter.node_id) for voter in history.latest) or "nobody"
        known = [voter for voter in history.latest if voter.node_id == self._me.node_id]
        if not self._settings.is_sole:
            return  # a controller that is no voter observes, until it is made one
        if not known:
            raise NotAVoter(
                f"The metadata log names {ids} as voters, not node {self._me.node_id}. Use the "
                "node.id that this directory was formatted with."
            )
        if known[0].directory_id != self._me.directory_id:
            raise NotAVoter(
                f"Node {self._me.node_id} votes with another metadata directory than this one. Use "
                "the directory that was formatted for it."
            )

    def _open_log(self) -> MetadataLog | None:
        return self._log

    def _opened(self) -> MetadataLog:
        assert self._log is not None, "start() opens the log"
        return self._log

    def _running(self) -> QuorumMachine:
        assert self._machine is not None, "start() makes the machine"
        return self._machine

    # Events

    def receive(self, request: QuorumRequest, reply: Callable[[QuorumResponse], None]) -> None:
        """Handle a request of another node; `reply` gets the response, at once or later."""
        if self._log is None:
            return  # the node stops, and closes its connections
        self._step(RequestArrived(self._replies.park(reply), request))

    def _step(self, event: QuorumEvent) -> None:
        if self._broken:
            return
        try:
            effects = self._running().step(event, self._clock.mono_ms())
        except CommittedTruncation as problem:
            text = str(problem)
            self._break_off()
            # On a turn of its own: the step belongs to the answer of a link.
            self._timers.soon(lambda: self._diverged(text))
        else:
            self._perform(effects)

    def _wake_up(self) -> None:
        self._timer, self._timer_ms = None, FOREVER
        if self._log is not None:
            self._step(TimePassed())

    def _set_timer(self) -> None:
        """Wake the machine when its next deadline comes; a timer that is early is kept."""
        wake_up_ms = self._running().wake_up_ms
        if wake_up_ms < self._timer_ms and self._log is not None and not self._broken:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = wake_up_ms
            self._timer = self._timers.at(wake_up_ms, self._wake_up)

    # Effects

    def _perform(self, effects: list[QuorumEffect]) -> None:
        """Perform effects in order; those of an event in between come last."""
        self._effects += effects
        if self._performing:
            return
        self._performing = True
        try:
            while self._effects and not self._waiting:
                self._perform_one(self._effects.popleft())
        finally:
            self._performing = False
        self._set_timer()

    def _perform_one(self, effect: QuorumEffect) -> None:
        match effect:
            case PersistElection():
                self._store_state(effect)
            case AppendControl():
                self._append_or_wait(effect, self._seal_control(effect))
            case AppendBatches():
                self._append_or_wait(effect, bytes(effect.data))
            case TruncateLog():
                self._truncate(effect)
            case SyncLog():
                self._sync()
            case CutLog():
                self._files.delete_old_snapshots()
                self._opened().delete_before(effect.start_offset)
            case StoreSlice() | InstallSnapshot() | DropDownload():
                self._download(effect)
            case HighWatermarkMoved():
                self._committed_offset = effect.offset
                if self._follower is not None:
                    self._follower.committed(effect.offset)
            case LeadershipGained() | LeadershipLost() | LeaderChanged():
                self._change_leader(effect)
                self.on_leader()
            case SendRequest():
                self._send(effect)
            case SendReply():
                self._replies.answer(effect)

    def _wait(self) -> Done:
        """Hold up all later effects; return the callback that lets them go on."""
        self._waiting = True

        def done(failure: DiskFailed | None) -> None:
            self._waiting = False
            if self._log is None:
                return
            if failure is not None:
                self._fail(failure)
            else:
                self._perform([])

        return done

    def _wait_for_room(self, effect: QuorumEffect, failure: Exception) -> None:
        """Try an effect again a little later: the disk is full. The node is silent meanwhile, and
        the others elect a leader."""
        now_ms = self._clock.mono_ms()
        if now_ms >= self._warns_of_room_at_ms:
            self._warns_of_room_at_ms = now_ms + ROOM_WARNING_MS
            log.warning("%s; the quorum waits for room on the disk", failure)
        self._effects.appendleft(effect)
        done = self._wait()
        self._timers.at(now_ms + ROOM_RETRY_MS, lambda: done(None))

    def _store_state(self, effect: PersistElection) -> None:
        history = self._running().replica.history
        voter_ids = tuple(voter.node_id for voter in history.latest)
        if not self._starting:
            done = self._wait()

            def stored(failure: DiskFailed | None) -> None:
                if isinstance(failure, DiskFull) and self._log is not None:
                    self._waiting = False
                    self._wait_for_room(effect, failure)
                else:
                    done(failure)

            self._files.store_state(effect.state, voter_ids, history.kraft_version, stored)
            return
        try:
            self._files.store_state_now(effect.state, voter_ids, history.kraft_version)
        except DiskFull as failure:
            if not self.is_only_voter:
                raise
            # The only voter finds the epoch in the log again, which gets it before anything counts.
            epoch = effect.state.leader_epoch
            log.warning("%s; the epoch %d is in the metadata log alone", failure, epoch)

    def _seal_control(self, effect: AppendControl) -> bytes:
        now_ms, base_offset = self._clock.wall_ms(), effect.base_offset
        records = [
            control_record(base_offset + index, now_ms, message)
            for index, message in enumerate(effect.messages)
        ]
        return build_batch(
            records, base_offset=base_offset, leader_epoch=effect.epoch, control=True
        )

    def _append_or_wait(self, effect: AppendControl | AppendBatches, data: bytes) -> None:
        """Append whole batches one by one; a full disk keeps the rest of them for later."""
        position = 0
        try:
            for position, header in batch_headers(data):
                self._store(data[position : position + LENGTH_OVERHEAD + header[LENGTH]])
        except KafkaStorageError as failure:
            if self._starting:
                raise
            rest = effect if isinstance(effect, AppendControl) else AppendBatches(data[position:])
            self._wait_for_room(rest, failure)
        except DiskFailed:
            pass  # reported, and the node gives up

    def _truncate(self, effect: TruncateLog) -> None:
        done = self._wait()

        def warmed(failure: DiskFailed | None) -> None:
            if failure is not None:
                done(failure)
            elif self._log is not None:
                self._waiting = False
                self._truncate(effect)

        try:
            self._opened().truncate(effect.offset, done)
        except Cold as cold:
            cold.file.warm(cold.position, cold.size, warmed)
        else:
            self._retry_while_waiting()

    def _retry_while_waiting(self) -> None:
        """Let a truncation go on when the disk has room again."""
        if (self._waiting or self._snapshots.begins_log) and self._log is not None:
            self._log.retry()
            at_ms = self._clock.mono_ms() + ROOM_RETRY_MS
            self._timers.at(at_ms, self._retry_while_waiting)

    def _download(self, effect: StoreSlice | InstallSnapshot | DropDownload) -> None:
        match effect:
            case StoreSlice():
                try:
                    self._files.store_slice(effect.snapshot_id, effect.position, effect.data)
                except DiskFull as failure:
                    self._wait_for_room(effect, failure)
                except DiskFailed as failure:
                    self._fail(failure)
            case InstallSnapshot():
                self._snapshots.install(effect.snapshot_id)
            case DropDownload():
                self._files.drop_download(effect.snapshot_id)

    def _change_leader(self, effect: LeadershipGained | LeadershipLost | LeaderChanged) -> None:
        match effect:
            case LeadershipGained():
                log.log(
                    logging.DEBUG if self.is_only_voter else logging.INFO,
                    "node %d leads the metadata quorum in epoch %d",
                    self._me.node_id,
                    effect.epoch,
                )
                self._gained_epoch = effect.epoch
                if self._follower is not None and not self._starting:
                    self._follower.gained()
            case LeadershipLost():
                self._gained_epoch = None
                if self._follower is not None:
                    self._follower.lost()
            case LeaderChanged() if effect.leader_id not in (self._me.node_id, -1):
                log.info(
                    "node %d leads the metadata quorum in epoch %d", effect.leader_id, effect.epoch
                )

    def _send(self, effect: SendRequest) -> None:
        request_id = effect.request_id

        def answered(response: QuorumResponse | None) -> None:
            if self._log is None:
                return
            if response is None:
                self._step(RequestFailed(request_id))
            else:
                self._note_cluster(effect.node_id, response)
                self._step(AnswerArrived(request_id, response))

        timeout_ms = self._settings.replica.request_timeout_ms
        self._transport.send(effect.node_id, effect.endpoint, effect.request, timeout_ms, answered)

    def _note_cluster(self, node_id: int, response: QuorumResponse) -> None:
        """Give up when a majority of the asked nodes belongs to another cluster, and no other node
        has answered."""
        self._strangers[node_id] = response.error_code == InconsistentClusterId.code
        replica = self._running().replica
        voters = tuple(each.node_id for each in replica.history.latest)
        asked = replica.settings.bootstrap_ids or voters
        others = [each for each in asked if each != self._me.node_id]
        answers = [self._strangers[each] for each in others if each in self._strangers]
        if self._strangers[node_id] and all(answers) and len(answers) * 2 > len(others):
            self._break_off()
            text = (
                "All controllers that answer this node belong to another cluster than its "
                f"directories, which belong to cluster {replica.settings.cluster_id}. Correct "
                "controller.quorum.bootstrap.servers or controller.quorum.voters, or point "
                "log.dirs to directories of that cluster."
            )
            self._timers.soon(lambda: self._diverged(text))

    def _still_leads(self, epoch: int) -> bool:
        return self._machine is not None and self._machine.is_leader and self.epoch == epoch

    # ReplicatedLog

    @property
    def is_only_voter(self) -> bool:
        return self._running().replica.is_only_voter

    @property
    def start_offset(self) -> int:
        return self._opened().start_offset

    @property
    def end_offset(self) -> int:
        return self._opened().end_offset

    @property
    def committed_offset(self) -> int:
        """Return the end of the committed records that are in the log. The machine may know of a
        later one, while a truncation or an append before it still waits for the disk."""
        return self._committed_offset

    @property
    def epoch(self) -> int:
        return self._machine.epoch if self._machine else 0

    @property
    def leader_id(self) -> int:
        """Return the leader of the present epoch, or -1."""
        return self._machine.leader_id if self._machine else -1

    @property
    def leader_endpoint(self) -> VoterEndpoint | None:
        """Return the address of the leader, None if this node does not know it."""
        return self._machine.replica.endpoint_of(self.leader_id) if self._machine else None

    def follow(self, follower: Follower) -> None:
        self._follower = follower

    def append(self, records: Sequence[Any]) -> LogBatch:
        """Write one atomic batch, which is committed after a majority has synced it."""
        writing = self.begin()
        writing.add(records)
        return writing.finish()

    def begin(self) -> BatchWriting:
        """Return a batch that is encoded in pieces."""
        return BatchWriting(self._encode, self._clock.wall_ms(), self._finish)

    def _finish(self, writing: BatchWriting) -> LogBatch:
        # The machine may have lost or regained the leadership while its effects still wait.
        if self._gained_epoch is None or not self._still_leads(self._gained_epoch):
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
        self._snapshots.bytes_since += len(data)

    def _sync(self) -> None:
        """Sync the batches written so far; the machine asks for one sync at a time."""

        def synced(failure: DiskFailed | None) -> None:
            if self._log is None:
                return
            if failure is not None:
                self._fail(failure)
                return
            self._step(LogSynced())

        self._opened().flush(synced)

    def resign(self) -> None:
        """Give up the leadership: the controller of this node cannot go on."""
        self._step(ResignRequested(self.epoch))

    def _fail(self, failure: DiskFailed) -> None:
        """Stop taking part after a failure of the disk, and report it to the node."""
        self._break_off()
        self._failed(failure)

    def _break_off(self) -> None:
        """Stop taking part: no further effect of the machine is performed."""
        self._broken = True
        self._effects.clear()
        self._step_down()

    def _step_down(self) -> None:
        self._gained_epoch = None
        self._snapshots.cancel()
        if self._follower is not None:
            self._follower.lost()

    def read(self) -> QuorumReader:
        """Return a reader of the snapshot and the whole log behind it, for the only voter."""
        snapshot = self._snapshots.take(self.snapshot_id)
        return self._read_from(0, snapshot, lambda: self.end_offset)

    def read_committed(self, offset: int) -> QuorumReader:
        """Return a reader of what is committed from `offset` on; below the start of the log the
        snapshot comes first."""
        behind = offset < self.start_offset or offset == 0
        snapshot = self._snapshots.take(self.snapshot_id) if behind else None
        return self._read_from(offset, snapshot, lambda: self.committed_offset)

    def _read_from(
        self, offset: int, snapshot: Snapshot | None, upper: Callable[[], int]
    ) -> QuorumReader:
        opened, path = self._opened(), self._files.path
        return QuorumReader(opened, path, snapshot, self._decode, offset, upper)

    # Snapshots

    @property
    def snapshot_id(self) -> MetadataSnapshotId | None:
        """Return the id of the newest complete snapshot, or None."""
        return self._machine.replica.log.latest_snapshot if self._machine else None

    @property
    def bytes_since_snapshot(self) -> int:
        return self._snapshots.bytes_since

    @property
    def writing_snapshot(self) -> bool:
        installs = self._machine is not None and self._machine.replica.installing is not None
        return self._snapshots.is_writing or installs

    def write_snapshot(
        self,
        snapshot_id: MetadataSnapshotId,
        values: Iterator[bytes],
        timestamp_ms: int,
        done: Done,
    ) -> None:
        """Write a snapshot in slices; `values` are the records of the committed state."""
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
        self._snapshots.write(snapshot_id, batches, done)

    def describe(self) -> QuorumView:
        """Return the quorum as this node sees it; after a failure of its disk, without a leader."""
        replica = self._running().replica
        view = view_quorum(replica, self._clock.mono_ms(), self._clock.wall_ms())
        return replace(view, leader_id=-1, led=None) if self._broken else view
