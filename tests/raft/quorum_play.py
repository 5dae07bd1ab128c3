"""Several machines of the quorum in one script: commands move time, messages and disks by hand."""

from machine_driver import CLUSTER, voter

from penstock.raft.control import read_control
from penstock.raft.machine import QuorumMachine
from penstock.raft.quorum_effects import (
    AppendBatches,
    AppendControl,
    CutLog,
    DropDownload,
    HighWatermarkMoved,
    InstallSnapshot,
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
    AnswerArrived,
    LeaderAppended,
    LogSynced,
    QuorumEvent,
    RequestArrived,
    ResignRequested,
    SnapshotInstalled,
    SnapshotWritten,
    TimePassed,
)
from penstock.raft.replica import ReplicaSettings
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voter_history import VoterHistory
from penstock.testing.sim.quorum.sim_replica import seal_control, split_batches
from penstock.testing.sim.quorum.storage import SimBatch, SimQuorumDisk
from penstock.wire.batch import Record, build_batch, read_records
from penstock.wire.messages.k01_fetch import FetchRequest, FetchResponse
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse
from penstock.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from transcripts import Command

SETTINGS = ReplicaSettings(cluster_id=CLUSTER, fetch_snapshot_bytes_max=40)
SNAPSHOT_BYTES = 60
DELIVERIES_MAX = 200


class PlayedNode:
    """A node of the script."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.disk = SimQuorumDisk()
        self.machine: QuorumMachine | None = None
        self.holds_syncs = False
        self.unsynced: list[int] = []  # changes that each held sync covers
        self.download = bytearray()
        self.now_ms = 0.0

    @property
    def running(self) -> QuorumMachine:
        assert self.machine is not None, f"node {self.node_id} runs"
        return self.machine


class QuorumPlay:
    """The nodes, the messages between them, and the trace of the present command."""

    def __init__(self) -> None:
        self.nodes: dict[int, PlayedNode] = {}
        self.voter_ids: tuple[int, ...] = ()
        self.lines: list[str] = []
        self.wire: list[tuple[int, int, QuorumEvent]] = []  # sender, receiver, event
        self._asked: dict[int, tuple[int, int]] = {}  # reply_to: sender, request id

    def __call__(self, command: Command) -> list[str]:
        self.lines = []
        getattr(self, command.verb.replace("-", "_"))(command)
        return self.lines

    def _node(self, command: Command) -> PlayedNode:
        return self.nodes[int(command.objects[0])]

    # -- verbs

    def nodes_are(self, command: Command) -> None:
        """Make nodes; those above `voters` are observers."""
        ids = [int(each) for each in command.objects]
        self.nodes = {node_id: PlayedNode(node_id) for node_id in ids}
        self.voter_ids = tuple(ids[: command.number("voters", len(ids))])

    def start(self, command: Command) -> None:
        for each in command.objects:
            node = self.nodes[int(each)]
            voters = tuple(voter(node_id) for node_id in self.voter_ids)
            history = VoterHistory()
            log = node.disk.open_log()
            latest = log.latest_snapshot
            history.load(latest.end_offset if latest else 0, 1, voters)
            for batch in node.disk.log.batches:
                if batch.is_control and batch.base_offset >= log.start_offset:
                    history.add_all(batch.base_offset, map(read_control, read_records(batch.data)))
            me = voter(node.node_id)
            node.machine = QuorumMachine(me, SETTINGS, log, history, lambda _limit: 0)
            self._perform(node, node.machine.start(node.disk.election, node.now_ms))

    def wait(self, command: Command) -> None:
        """Let time pass at one node; each has a clock of its own."""
        node = self._node(command)
        node.now_ms += int(command.objects[1])
        self._step(node, TimePassed())

    def deliver(self, command: Command) -> None:
        """Deliver messages between the named nodes, or between all, until there are none."""
        named = [int(each) for each in command.objects] or list(self.nodes)
        for _ in range(DELIVERIES_MAX):
            found = [m for m in self.wire if m[0] in named and m[1] in named]
            if not found:
                return
            self.wire.remove(found[0])
            _, receiver_id, event = found[0]
            node = self.nodes[receiver_id]
            if node.machine is not None:
                self._step(node, event)
        raise AssertionError("the messages never end")

    def drop(self, command: Command) -> None:
        """Lose all messages from and to the named nodes."""
        named = [int(each) for each in command.objects]
        self.wire = [m for m in self.wire if m[0] not in named and m[1] not in named]

    def append(self, command: Command) -> None:
        node = self._node(command)
        for value in command.objects[1:]:
            offset, epoch = node.running.end_offset, node.running.epoch
            data = build_batch(
                [Record(offset, 0, None, value.encode())], base_offset=offset, leader_epoch=epoch
            )
            batch = SimBatch(offset, offset + 1, epoch, data, is_control=False)
            self._append(node, batch)
            self._step(node, LeaderAppended(data))

    def hold(self, command: Command) -> None:
        """Let syncs of a node wait for the verb `sync`."""
        self._node(command).holds_syncs = True

    def sync(self, command: Command) -> None:
        node = self._node(command)
        node.holds_syncs = False
        while node.unsynced:
            node.disk.sync(node.unsynced.pop())
            self._step(node, LogSynced())

    def snapshot(self, command: Command) -> None:
        node = self._node(command)
        snapshot_id = node.running.next_snapshot_id()
        assert snapshot_id is not None, "there is something to snapshot"
        self.lines.append(f"{node.node_id}: snapshot {snapshot_id.end_offset}-{snapshot_id.epoch}")
        node.disk.snapshots[snapshot_id] = bytes(SNAPSHOT_BYTES)
        self._step(node, SnapshotWritten(snapshot_id, SNAPSHOT_BYTES))

    def resign(self, command: Command) -> None:
        node = self._node(command)
        self._step(node, ResignRequested(node.running.epoch))

    def kill(self, command: Command) -> None:
        node = self._node(command)
        node.machine = None
        node.unsynced.clear()
        self.drop(command)

    def lose_power(self, command: Command) -> None:
        self.kill(command)
        self._node(command).disk.lose_power(lambda _limit: 0)

    def state(self, _: Command) -> None:
        for node in self.nodes.values():
            if node.machine is not None:
                role = type(node.machine.replica.role).__name__.removesuffix("Role")
                self.lines.append(
                    f"{node.node_id}: {role} epoch={node.machine.epoch} "
                    f"leader={node.machine.leader_id} log={node.machine.replica.log.start_offset}-"
                    f"{node.machine.end_offset} watermark={node.machine.high_watermark}"
                )

    def log(self, command: Command) -> None:
        self.lines += [line_of(batch) for batch in self._node(command).disk.log.batches]

    # -- effects

    def _step(self, node: PlayedNode, event: QuorumEvent) -> None:
        self._perform(node, node.running.step(event, node.now_ms))

    def _perform(self, node: PlayedNode, effects: list[QuorumEffect]) -> None:
        for effect in effects:
            self._perform_one(node, effect)

    def _perform_one(self, node: PlayedNode, effect: QuorumEffect) -> None:
        who, disk = node.node_id, node.disk
        match effect:
            case PersistElection(state=state):
                disk.election = disk.durable_election = state
                self.lines.append(
                    f"{who}: persist epoch={state.leader_epoch} leader={state.leader_id} "
                    f"vote={state.voted_id}"
                )
            case AppendBatches():
                for batch in split_batches(bytes(effect.data)):
                    self._append(node, batch)
            case AppendControl():
                self._append(node, seal_control(effect))
            case TruncateLog():
                self.lines.append(f"{who}: truncate to {effect.offset}")
                disk.truncate(effect.offset)
            case CutLog():
                self.lines.append(f"{who}: cut below {effect.start_offset}")
                disk.cut(effect.start_offset, effect.forgotten)
            case SyncLog():
                node.unsynced.append(len(disk.unsynced))
                if node.holds_syncs:
                    self.lines.append(f"{who}: sync waits")
                else:
                    disk.sync(node.unsynced.pop())
                    self.lines.append(f"{who}: sync")
                    self._step(node, LogSynced())
            case StoreSlice():
                del node.download[effect.position :]
                node.download += effect.data
                self.lines.append(f"{who}: store {effect.position}-{len(node.download)}")
            case InstallSnapshot(snapshot_id=snapshot_id):
                self._install(node, snapshot_id)
            case DropDownload():
                self.lines.append(f"{who}: drop the download")
            case HighWatermarkMoved():
                self.lines.append(f"{who}: watermark {effect.offset}")
            case LeadershipGained():
                self.lines.append(f"{who}: leads epoch={effect.epoch} from {effect.start_offset}")
            case LeadershipLost():
                self.lines.append(f"{who}: leads no longer epoch={effect.epoch}")
            case SendRequest():
                self._send(node, effect)
            case SendReply():
                self._reply(node, effect)

    def _append(self, node: PlayedNode, batch: SimBatch) -> None:
        self.lines.append(f"{node.node_id}: {line_of(batch)}")
        node.disk.append(batch)

    def _install(self, node: PlayedNode, snapshot_id: MetadataSnapshotId) -> None:
        self.lines.append(f"{node.node_id}: install {snapshot_id.end_offset}-{snapshot_id.epoch}")
        node.disk.snapshots[snapshot_id] = bytes(node.download)
        node.disk.begin_behind(snapshot_id)
        voters = tuple(voter(node_id) for node_id in self.voter_ids)
        self._step(node, SnapshotInstalled(snapshot_id, len(node.download), 1, voters))

    def _send(self, node: PlayedNode, effect: SendRequest) -> None:
        self.lines.append(f"{node.node_id} -> {effect.node_id}: {request_line(effect)}")
        reply_to = len(self._asked) + 1
        self._asked[reply_to] = (node.node_id, effect.request_id)
        event = RequestArrived(reply_to, effect.request)
        self.wire.append((node.node_id, effect.node_id, event))

    def _reply(self, node: PlayedNode, effect: SendReply) -> None:
        response = effect.response
        match effect.records:
            case LogRange() as records:
                assert isinstance(response, FetchResponse)
                data = node.disk.read(records.offset, records.bytes_max)
                response.responses[0].partitions[0].records = data
            case SnapshotRange() as records:
                assert isinstance(response, FetchSnapshotResponse)
                end = records.position + records.bytes_max
                data = node.disk.snapshots[records.snapshot_id][records.position : end]
                response.topics[0].partitions[0].unaligned_records = data
        sender_id, request_id = self._asked[effect.reply_to]
        self.lines.append(f"{node.node_id} => {sender_id}: {response_line(effect)}")
        self.wire.append((node.node_id, sender_id, AnswerArrived(request_id, response)))


# -- lines


def line_of(batch: SimBatch) -> str:
    records = list(read_records(batch.data))
    names = [(record.value or b"").decode() for record in records if not batch.is_control]
    if batch.is_control:
        names = [type(read_control(record)).__name__ for record in records]
    span = f"{batch.base_offset}-{batch.end_offset}"
    return f"append {span} epoch={batch.epoch} {' '.join(names)}"


def request_line(effect: SendRequest) -> str:
    request = effect.request
    match request:
        case VoteRequest():
            vote = request.topics[0].partitions[0]
            name = "PreVote" if vote.pre_vote else "Vote"
            log_end = f"{vote.last_offset_epoch}:{vote.last_offset}"
            return f"{name} epoch={vote.replica_epoch} log={log_end}"
        case FetchRequest():
            fetch = request.topics[0].partitions[0]
            return (
                f"Fetch epoch={fetch.current_leader_epoch} "
                f"log={fetch.last_fetched_epoch}:{fetch.fetch_offset} "
                f"watermark={fetch.high_watermark}"
            )
        case FetchSnapshotRequest():
            part = request.topics[0].partitions[0]
            snapshot = f"{part.snapshot_id.end_offset}-{part.snapshot_id.epoch}"
            return f"FetchSnapshot {snapshot} position={part.position}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch epoch={request.topics[0].partitions[0].leader_epoch}"
        case EndQuorumEpochRequest():
            end = request.topics[0].partitions[0]
            heirs = ",".join(str(each.candidate_id) for each in end.preferred_candidates) or "none"
            return f"EndQuorumEpoch epoch={end.leader_epoch} successors={heirs}"


def response_line(effect: SendReply) -> str:
    response = effect.response
    match response:
        case VoteResponse():
            vote = response.topics[0].partitions[0]
            verdict = "granted" if vote.vote_granted else "denied"
            return f"{verdict} epoch={vote.leader_epoch} leader={vote.leader_id}{error(vote)}"
        case FetchResponse():
            part = response.responses[0].partitions[0]
            news = f"{len(part.records or b'')} bytes" if effect.records else "no records"
            if part.diverging_epoch.epoch >= 0:
                news = f"diverging {part.diverging_epoch.epoch}:{part.diverging_epoch.end_offset}"
            if part.snapshot_id.epoch >= 0:
                news = f"snapshot {part.snapshot_id.end_offset}-{part.snapshot_id.epoch}"
            leader = part.current_leader
            return (
                f"{news} watermark={part.high_watermark} epoch={leader.leader_epoch} "
                f"leader={leader.leader_id}{error(part)}"
            )
        case FetchSnapshotResponse():
            slice_ = response.topics[0].partitions[0]
            end = slice_.position + len(slice_.unaligned_records)
            return f"bytes {slice_.position}-{end} of {slice_.size}{error(slice_)}"
        case _:
            result = response.topics[0].partitions[0]
            return f"epoch={result.leader_epoch} leader={result.leader_id}{error(result)}"


def error(partition: object) -> str:
    code = getattr(partition, "error_code", 0)
    return f" error={code}" if code else ""
