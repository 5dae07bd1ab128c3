"""One simulated node of the quorum: the machine, its disk, and the shell between them.

The shell performs effects in order. Storing the election holds up all later effects, as in a node.
A life begins with a start and ends with a kill or a loss of power; events of an earlier life are
dropped.
"""

from collections import deque
from typing import TYPE_CHECKING

from penstock.raft.control import control_record, read_control
from penstock.raft.machine import QuorumMachine
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
    LogRange,
    PersistElection,
    QuorumEffect,
    SendReply,
    SendRequest,
    SnapshotRange,
    StoreSlice,
    SyncLog,
    TruncateLog,
)
from penstock.raft.quorum_events import (
    LeaderAppended,
    LogSynced,
    QuorumEvent,
    ResignRequested,
    ShutdownRequested,
    SnapshotInstalled,
    SnapshotWritten,
    TimePassed,
)
from penstock.raft.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from penstock.raft.roles import FOREVER, ResignedRole
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import QuorumVoter, Voters
from penstock.testing.sim.quorum.storage import SimBatch, SimQuorumDisk
from penstock.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    CONTROL,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LENGTH_OVERHEAD,
    Record,
    batch_headers,
    build_batch,
    read_records,
)
from penstock.wire.messages.k01_fetch import FetchResponse
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotResponse

if TYPE_CHECKING:
    from penstock.testing.sim.quorum.simulation import QuorumSimulation

SLOW_DISK_FACTOR = 15.0
ROOM_RETRY_MS = 4.0
WRITING = (PersistElection, AppendBatches, AppendControl, StoreSlice)
NOTABLE = (
    LeadershipGained,
    LeadershipLost,
    HighWatermarkMoved,
    TruncateLog,
    CutLog,
    InstallSnapshot,
    DropDownload,
)


class SimReplica:
    """A node. `clock_rate` is the speed of its clock beside virtual time."""

    def __init__(
        self, simulation: "QuorumSimulation", me: QuorumVoter, clock_rate: float, *, votes: bool
    ) -> None:
        self.simulation = simulation
        self.checker = simulation.checker
        self.me = me
        self.node_id = me.node_id
        self.votes = votes
        self.disk = SimQuorumDisk()
        self.life = 0
        self.machine: QuorumMachine | None = None
        self.paused_until_ms = 0.0
        self.has_slow_disk = False
        self.has_full_disk = False
        self._waits_for_room = False
        self.is_gained = False
        self._clock_rate = clock_rate
        self._clock_start_ms = simulation.chance.uniform(0.0, 1000.0)
        self._queue: deque[QuorumEffect] = deque()
        self._is_storing = False
        self._is_snapshotting = False
        self._download = bytearray()
        self._high_watermark = -1
        self._timer_ms = FOREVER

    # -- time

    @property
    def now_ms(self) -> float:
        return self._clock_start_ms + self.simulation.now_ms * self._clock_rate

    def _disk_ms(self) -> float:
        slowness = SLOW_DISK_FACTOR if self.has_slow_disk else 1.0
        return self.simulation.draw_disk_ms() * slowness

    def _set_timer(self) -> None:
        machine = self.machine
        assert machine is not None
        wake_up_ms = machine.wake_up_ms
        if wake_up_ms == FOREVER:
            return
        at_ms = (wake_up_ms - self._clock_start_ms) / self._clock_rate
        at_ms = max(self.simulation.now_ms, at_ms) + 0.001
        if at_ms < self._timer_ms:
            self._timer_ms = at_ms
            self.simulation.at(at_ms, self, lambda: self._wake_up(at_ms))

    def _wake_up(self, at_ms: float) -> None:
        machine = self.machine
        if machine is None or at_ms != self._timer_ms:
            return  # an earlier timer was set meanwhile
        self._timer_ms = FOREVER
        if machine.wake_up_ms <= self.now_ms:
            self.step(TimePassed())
        else:
            self._set_timer()

    # -- life

    def start(self) -> None:
        """Begin a life from the disk."""
        assert self.machine is None, "one life at a time"
        self.life += 1
        log = self.disk.open_log()
        draw = self.simulation.draw
        history = VoterHistory(draw.voters if draw.kraft_version == 0 else ())
        latest = log.latest_snapshot
        if latest is not None:
            history.load(latest.end_offset, *self.simulation.snapshot_voters(latest))
        elif draw.kraft_version > 0 and self.votes:
            history.load(0, draw.kraft_version, draw.voters)
        covered_to = latest.end_offset if latest is not None else 0
        for batch in self.disk.log.batches:
            if batch.is_control and batch.base_offset >= covered_to:
                history.add_all(batch.base_offset, map(read_control, read_records(batch.data)))
        self._queue.clear()
        self._is_storing = self._is_snapshotting = self.is_gained = False
        self._waits_for_room = False
        self._high_watermark = -1
        self._timer_ms = FOREVER
        self.machine = QuorumMachine(
            self.me, self.simulation.settings_of(self), log, history, self.simulation.random_below
        )
        stored = self._read_election(history)
        if stored is not None and stored.leader_id == self.node_id:
            self.checker.counters["restarted leaders"] += 1
        elif stored is not None and stored.voted_id == self.node_id:
            self.checker.counters["restarted candidates"] += 1
        self.simulation.tell(self, f"start from {stored}, {log.end}")
        self._perform(self.machine.start(stored, self.now_ms))

    def _read_election(self, history: VoterHistory) -> QuorumState | None:
        """Return the stored state as its file gives it back."""
        stored = self.disk.election
        if stored is None:
            return None
        voter_ids = tuple(voter.node_id for voter in history.latest)
        return parse_quorum_state(format_quorum_state(stored, voter_ids, history.kraft_version))

    def kill(self) -> None:
        """End the process; the page cache survives."""
        if self._is_storing and self.simulation.chance.random() < 0.5:
            effect = self._queue[0]
            assert isinstance(effect, PersistElection)
            self.disk.election = effect.state
        self.machine = None
        self.life += 1
        self.simulation.tell(self, "end of the process")
        self.simulation.network.drop_requests_at(self.node_id)

    def lose_power(self) -> None:
        """End the process and lose all that is not durable."""
        self.kill()
        if self.disk.election != self.disk.durable_election and self.simulation.random_below(2):
            self.disk.durable_election = self.disk.election
        self.disk.lose_power(self.simulation.random_below)

    # -- events

    def step(self, event: QuorumEvent) -> None:
        machine = self.machine
        if machine is None:
            return
        was_leader = machine.is_leader
        effects = machine.step(event, self.now_ms)
        if was_leader and isinstance(machine.replica.role, ResignedRole):
            asked = isinstance(event, ResignRequested | ShutdownRequested)
            self.checker.counters["resignations" if asked else "check-quorum losses"] += 1
        self._perform(effects)

    def propose(self, value: bytes) -> bool:
        """Append a record as leader; return False if this node does not lead."""
        machine = self.machine
        if machine is None or not machine.is_leader or not self.is_gained:
            return False
        if self._queue or self.has_full_disk:
            return False
        offset = machine.end_offset
        data = build_batch(
            [Record(offset, 0, None, value)], base_offset=offset, leader_epoch=machine.epoch
        )
        self._append(SimBatch(offset, offset + 1, machine.epoch, data, is_control=False))
        self.step(LeaderAppended(data))
        return True

    def take_snapshot(self) -> None:
        """Write a snapshot of the committed records, which takes some time."""
        machine = self.machine
        if machine is None or self._is_snapshotting or self.has_full_disk:
            return
        snapshot_id = machine.next_snapshot_id()
        if snapshot_id is None:
            return
        history = machine.replica.history
        end_offset = snapshot_id.end_offset
        kraft_version = history.kraft_version_before(end_offset)
        voters = history.voters_before(end_offset) if kraft_version else ()
        self._is_snapshotting = True
        self.simulation.after(
            self._disk_ms() * 3,
            self,
            lambda: self._end_snapshot(snapshot_id, kraft_version, voters),
        )

    def _end_snapshot(
        self, snapshot_id: MetadataSnapshotId, kraft_version: int, voters: Voters
    ) -> None:
        self._is_snapshotting = False
        assert self.machine is not None
        latest = self.machine.replica.log.latest_snapshot
        if latest is not None and latest.end_offset >= snapshot_id.end_offset:
            return
        self.checker.note_snapshot(self, snapshot_id, kraft_version, voters)
        self.checker.counters["snapshots written"] += 1
        data = self.simulation.snapshot_data(snapshot_id, kraft_version, voters)
        self.disk.snapshots[snapshot_id] = data
        self.step(SnapshotWritten(snapshot_id, len(data)))

    # -- effects

    def _perform(self, effects: list[QuorumEffect]) -> None:
        self._queue.extend(effects)
        self._run_queue()
        if self.machine is not None:
            self._set_timer()

    def _run_queue(self) -> None:
        while self._queue and not self._is_storing:
            effect = self._queue[0]
            if self.has_full_disk and isinstance(effect, WRITING):
                self._wait_for_room()
                return
            if isinstance(effect, PersistElection):
                self._is_storing = True
                self.simulation.after(self._disk_ms(), self, self._end_storing)
                return
            self._queue.popleft()
            self._perform_one(effect)

    def _wait_for_room(self) -> None:
        """Try the first effect again a little later; all others wait behind it."""
        if not self._waits_for_room:
            self._waits_for_room = True
            self.simulation.after(ROOM_RETRY_MS, self, self._try_again)

    def _try_again(self) -> None:
        self._waits_for_room = False
        self._run_queue()

    def _end_storing(self) -> None:
        effect = self._queue.popleft()
        assert isinstance(effect, PersistElection)
        self.disk.election = self.disk.durable_election = effect.state
        self._is_storing = False
        self._run_queue()

    def _perform_one(self, effect: QuorumEffect) -> None:
        counters = self.checker.counters
        if isinstance(effect, NOTABLE):
            self.simulation.tell(self, effect)
        match effect:
            case SendRequest():
                if isinstance(effect.request, VoteRequest):
                    self._note_own_vote(effect.request)
                self.simulation.network.send(self, effect)
            case SendReply():
                self._reply(effect)
            case AppendBatches():
                for batch in split_batches(bytes(effect.data)):
                    self._append(batch)
            case AppendControl():
                self._append(seal_control(effect))
            case SyncLog():
                changes = len(self.disk.unsynced)
                self.simulation.after(self._disk_ms(), self, lambda: self._end_sync(changes))
            case HighWatermarkMoved():
                self.checker.note_commit(self, self._high_watermark, effect.offset)
                self._high_watermark = effect.offset
            case TruncateLog():
                self.checker.note_truncation(self, effect.offset)
                counters["truncations"] += 1
                self.disk.truncate(effect.offset)
            case CutLog():
                counters["log cuts"] += bool(effect.forgotten)
                self.disk.cut(effect.start_offset, effect.forgotten)
            case StoreSlice():
                del self._download[effect.position :]
                self._download += effect.data
            case InstallSnapshot():
                self.simulation.after(self._disk_ms(), self, lambda: self._install(effect))
            case DropDownload():
                counters["downloads dropped"] += 1
                self._download.clear()
            case LeadershipGained():
                counters["elections"] += 1
                self.is_gained = True
                self.checker.note_leader(self, effect.epoch)
                self.simulation.faults.maybe_disturb_leader(self)
            case LeadershipLost():
                self.is_gained = False
            case LeaderChanged() | PersistElection():
                pass

    def _append(self, batch: SimBatch) -> None:
        self.checker.note_append(self, batch)
        self.disk.append(batch)

    def _end_sync(self, changes: int) -> None:
        self.disk.sync(changes)
        self.step(LogSynced())

    def _install(self, effect: InstallSnapshot) -> None:
        """Make a download durable; replace the log some time later."""
        data = bytes(self._download)
        kraft_version, voters = self.simulation.snapshot_voters(effect.snapshot_id)
        self.checker.note_snapshot(self, effect.snapshot_id, kraft_version, voters)
        expected = self.simulation.snapshot_data(effect.snapshot_id, kraft_version, voters)
        assert data == expected, "a download is the leader's snapshot byte for byte"
        self.disk.snapshots[effect.snapshot_id] = data
        self.simulation.after(
            self._disk_ms(), self, lambda: self._end_install(effect.snapshot_id, len(data))
        )

    def _end_install(self, snapshot_id: MetadataSnapshotId, size_bytes: int) -> None:
        self.disk.begin_behind(snapshot_id)
        self.checker.counters["snapshots installed"] += 1
        voters = self.simulation.snapshot_voters(snapshot_id)
        self.step(SnapshotInstalled(snapshot_id, size_bytes, *voters))

    def _note_own_vote(self, request: VoteRequest) -> None:
        partition = request.topics[0].partitions[0]
        if not partition.pre_vote:
            self.checker.note_vote(self.node_id, partition.replica_epoch, self.node_id)

    def _reply(self, effect: SendReply) -> None:
        response = effect.response
        match effect.records:
            case LogRange() as records:
                assert isinstance(response, FetchResponse)
                data = self.disk.read(records.offset, records.bytes_max)
                response.responses[0].partitions[0].records = data
            case SnapshotRange() as records:
                assert isinstance(response, FetchSnapshotResponse)
                snapshot = self.disk.snapshots[records.snapshot_id]
                end = records.position + records.bytes_max
                response.topics[0].partitions[0].unaligned_records = snapshot[
                    records.position : end
                ]
        request = self.simulation.network.reply(self, effect)
        if isinstance(response, VoteResponse) and isinstance(request, VoteRequest):
            self._note_vote(request, response)

    def _note_vote(self, request: VoteRequest, response: VoteResponse) -> None:
        partition = request.topics[0].partitions[0]
        granted = bool(response.topics) and response.topics[0].partitions[0].vote_granted
        self.simulation.tell(self, f"granted={granted} to {partition}")
        if partition.pre_vote:
            self.checker.counters[f"pre-votes {'granted' if granted else 'denied'}"] += 1
        else:
            self.checker.counters[f"votes {'granted' if granted else 'denied'}"] += 1
            if granted:
                epoch, candidate_id = partition.replica_epoch, partition.replica_id
                self.checker.note_vote(self.node_id, epoch, candidate_id)
                self.simulation.faults.maybe_crash_voter(self)


def split_batches(data: bytes) -> list[SimBatch]:
    """Return the batches of a fetch answer one by one."""
    batches = []
    for position, header in batch_headers(data):
        base_offset = header[BASE_OFFSET]
        batches.append(
            SimBatch(
                base_offset,
                base_offset + header[LAST_OFFSET_DELTA] + 1,
                header[LEADER_EPOCH],
                data[position : position + LENGTH_OVERHEAD + header[LENGTH]],
                bool(header[ATTRIBUTES] & CONTROL),
            )
        )
    return batches


def seal_control(effect: AppendControl) -> SimBatch:
    """Return the batch of control records that begins an epoch."""
    base_offset = effect.base_offset
    records = [
        control_record(base_offset + index, 0, message)
        for index, message in enumerate(effect.messages)
    ]
    data = build_batch(records, base_offset=base_offset, leader_epoch=effect.epoch, control=True)
    end_offset = base_offset + len(records)
    return SimBatch(base_offset, end_offset, effect.epoch, data, is_control=True)
