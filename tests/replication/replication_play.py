"""One partition on several nodes in a script: commands move fetches and images by hand."""

from replica_driver import TOPIC_ID, StoredRecords, batch

from penstock.errors import KafkaError, OffsetOutOfRange, from_code
from penstock.replication.fetcher import FetcherSettings, ReplicaFetcher
from penstock.replication.follower import PartitionFollower
from penstock.replication.follower_progress import FetchContact
from penstock.replication.follower_steps import (
    Append,
    AskEnd,
    AskStart,
    FollowerStep,
    StartAt,
    TruncateTo,
)
from penstock.replication.isr_proposal import IsrProposal
from penstock.replication.leader import PartitionLeader
from penstock.replication.watermarks import follower_watermark
from penstock.wire.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from transcripts import Command

LAG_MS = 100.0
SESSION_ID = 9


class PlayedReplica:
    """A node with its log, as leader or as follower."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log = StoredRecords()
        self.stored: list[tuple[int, int, bytes]] = []  # base offset, epoch, bytes
        self.leader = PartitionLeader(node_id, -1, (), 0, lag_ms_max=LAG_MS)
        self.leader.require(2, 3)
        self.follower: PartitionFollower | None = None
        self.fetcher: ReplicaFetcher | None = None
        self.questions: dict[int, FetchPartition] = {}  # by follower: its session here
        self.contacts: dict[int, FetchContact] = {}

    def append(self, base_offset: int, epoch: int, data: bytes) -> None:
        self.stored.append((base_offset, epoch, data))
        self.log.append(memoryview(data))

    def cut(self, offset: int) -> None:
        self.stored = [each for each in self.stored if each[0] < offset]
        self.log.truncate_to(offset)

    def restart_at(self, offset: int) -> None:
        self.stored = []
        self.log = StoredRecords(start=offset, end=offset)
        assert self.follower is not None
        self.follower.log = self.log


class ReplicationPlay:
    """The nodes, and the trace of the present command."""

    def __init__(self) -> None:
        self.nodes: dict[int, PlayedReplica] = {}
        self.now = 0.0
        self.partition_epoch = 0
        self.lines: list[str] = []
        self.proposals: dict[int, IsrProposal] = {}

    def __call__(self, command: Command) -> list[str]:
        self.lines = []
        getattr(self, command.verb.replace("-", "_"))(command)
        return self.lines

    def _node(self, command: Command) -> PlayedReplica:
        return self.nodes[int(command.objects[0])]

    # -- verbs

    def nodes_are(self, command: Command) -> None:
        self.nodes = {int(each): PlayedReplica(int(each)) for each in command.objects}

    def elect(self, command: Command) -> None:
        """Give the partition a leader; all named nodes learn of it, all nodes without a name."""
        leader_id, epoch = int(command.objects[0]), command.number("epoch", 0)
        isr = tuple(int(each) for each in command.options["isr"].split(","))
        heard = command.options.get("heard")
        self.partition_epoch += 1
        for node in self.nodes.values():
            if heard is None or str(node.node_id) in heard.split(","):
                self._hear(node, leader_id, epoch, isr)

    def _hear(self, node: PlayedReplica, leader_id: int, epoch: int, isr: tuple[int, ...]) -> None:
        replicas = tuple(self.nodes)
        if node.node_id == leader_id:
            node.leader.begin(
                epoch, self.partition_epoch, isr, replicas, node.log.end_offset, self.now
            )
            node.log.epochs.assign(epoch, node.log.end_offset)
            node.leader.advance(node.log.end_offset, self.now)
            node.questions.clear()
            self.lines.append(f"{node.node_id}: leads epoch={epoch} from {node.log.end_offset}")
            return
        node.leader.follow(epoch, self.partition_epoch, replicas)
        settings = FetcherSettings(node.node_id)
        node.follower = PartitionFollower(TOPIC_ID, 0, node.log, leader_id, epoch)
        node.fetcher = ReplicaFetcher(leader_id, settings, broker_epoch=7)
        node.fetcher.add(node.follower)

    def append(self, command: Command) -> None:
        node = self._node(command)
        for _ in range(int(command.objects[1])):
            offset, epoch = node.log.end_offset, node.leader.epoch
            node.append(offset, epoch, batch(offset, epoch, command.number("records", 1)))
        node.leader.appended(node.log.end_offset)
        self._watermark(node, moved=node.leader.advance(node.log.end_offset, self.now))

    def delete_below(self, command: Command) -> None:
        """Move the log start of a leader."""
        self._node(command).log.start_offset = int(command.objects[1])

    def wait(self, command: Command) -> None:
        self.now += int(command.objects[0])

    def fetch(self, command: Command) -> None:
        """Let nodes fetch once from their leaders, and perform the steps."""
        for each in command.objects:
            self._fetch(self.nodes[int(each)])

    def join(self, command: Command) -> None:
        node, replica_id = self._node(command), int(command.objects[1])
        self._propose(node, node.leader.joining(replica_id, self.now))

    def shrink(self, command: Command) -> None:
        node = self._node(command)
        self._propose(node, node.leader.lagging(self.now, LAG_MS))

    def accept(self, command: Command) -> None:
        """Let the controller accept the change that a leader has proposed."""
        node = self._node(command)
        proposal = self.proposals.pop(node.node_id)
        self.partition_epoch += 1
        isr = tuple(each for each, _ in proposal.isr)
        moved = node.leader.accepted(proposal, node.leader.epoch, self.partition_epoch, isr)
        self.lines.append(f"{node.node_id}: in sync {isr}")
        self._watermark(node, moved=moved)

    def reject(self, command: Command) -> None:
        node = self._node(command)
        proposal = self.proposals.pop(node.node_id)
        error = from_code(command.number("error", 0))
        again = node.leader.rejected(proposal, error)
        self.lines.append(f"{node.node_id}: {'send again' if again else node.leader.maximal_isr}")

    def state(self, _: Command) -> None:
        for node in self.nodes.values():
            batches = " ".join(f"{base}@{epoch}" for base, epoch, _ in node.stored)
            self.lines.append(
                f"{node.node_id}: log={node.log.start_offset}-{node.log.end_offset} "
                f"watermark={node.leader.high_watermark} batches {batches}"
            )

    # -- a fetch

    def _propose(self, node: PlayedReplica, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self.proposals[node.node_id] = proposal
            self.lines.append(f"{node.node_id}: propose {tuple(each for each, _ in proposal.isr)}")

    def _watermark(self, node: PlayedReplica, *, moved: bool) -> None:
        if moved:
            self.lines.append(f"{node.node_id}: watermark {node.leader.high_watermark}")

    def _fetch(self, node: PlayedReplica) -> None:
        assert node.fetcher is not None
        request = node.fetcher.next_request(self.now)
        if request is None:
            self.lines.append(f"{node.node_id}: nothing to fetch")
            return
        leader = self.nodes[node.fetcher.leader_id]
        self.lines.append(f"{node.node_id} -> {leader.node_id}: {request_line(request)}")
        response = self._serve(leader, node.node_id, request)
        for follower, step in node.fetcher.answered(response, self.now):
            self.lines.append(f"{node.node_id}: {step_line(step)}")
            self._perform(node, follower, leader, step)

    def _serve(
        self, leader: PlayedReplica, replica_id: int, request: FetchRequest
    ) -> FetchResponse:
        if request.session_epoch == 0:
            leader.contacts[replica_id] = FetchContact(self.now)
        leader.contacts[replica_id].arrive(self.now)
        for topic in request.topics:
            leader.questions[replica_id] = topic.partitions[0]
        question = leader.questions[replica_id]
        try:
            data = self._read(leader, replica_id, question)
        except KafkaError as error:
            data = PartitionData(error_code=error.code)
        served = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return FetchResponse(session_id=SESSION_ID, responses=[served])

    def _read(
        self, node: PlayedReplica, replica_id: int, question: FetchPartition
    ) -> PartitionData:
        leader, log, offset = node.leader, node.log, question.fetch_offset
        leader.check_epoch(question.current_leader_epoch)
        data = PartitionData(
            high_watermark=leader.high_watermark, log_start_offset=log.start_offset
        )
        if question.last_fetched_epoch >= 0:
            epoch, end = log.epoch_end(question.last_fetched_epoch)
            if end < 0 or offset < log.start_offset:
                raise OffsetOutOfRange
            if epoch < question.last_fetched_epoch or end < offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange
        start = question.log_start_offset
        contact = node.contacts[replica_id]
        moved = leader.fetched(replica_id, 7, offset, start, self.now, contact)
        self._watermark(node, moved=moved)
        first = next((i for i, each in reversed([*enumerate(node.stored)]) if each[0] <= offset), 0)
        found = node.stored[first:] if offset < log.end_offset else []
        data.records = b"".join(each for _, _, each in found)
        return data

    def _perform(
        self,
        node: PlayedReplica,
        follower: PartitionFollower,
        leader: PlayedReplica,
        step: FollowerStep,
    ) -> None:
        match step:
            case Append():
                if step.restart_at is not None:
                    node.restart_at(step.restart_at)
                self._store(node, leader, step)
                node.leader.high_watermark = follower_watermark(
                    step.high_watermark, node.log.start_offset, node.log.end_offset
                )
                node.log.start_offset = max(node.log.start_offset, step.log_start)
            case TruncateTo():
                node.cut(step.offset)
            case StartAt():
                node.restart_at(step.offset)
            case AskEnd():
                self._go_on(
                    node, leader, follower.end_known(step.leader_epoch, leader.log.end_offset)
                )
                return
            case AskStart():
                start = leader.log.start_offset
                self._go_on(node, leader, follower.start_known(step.leader_epoch, start))
                return
            case _:
                pass
        follower.finished()
        assert node.fetcher is not None
        node.fetcher.changed(follower)

    def _go_on(self, node: PlayedReplica, leader: PlayedReplica, step: FollowerStep | None) -> None:
        assert node.follower is not None
        assert node.fetcher is not None
        if step is not None:
            self.lines.append(f"{node.node_id}: {step_line(step)}")
            self._perform(node, node.follower, leader, step)
        node.fetcher.changed(node.follower)

    def _store(self, node: PlayedReplica, leader: PlayedReplica, step: Append) -> None:
        taken = bytes(step.records)
        for base, epoch, data in leader.stored:
            if base >= node.log.end_offset and data in taken:
                node.append(base, epoch, data)


# -- lines


def request_line(request: FetchRequest) -> str:
    session = f"session={request.session_id}:{request.session_epoch}"
    questions = [
        f"from {each.fetch_offset} epoch={each.current_leader_epoch} last={each.last_fetched_epoch}"
        for topic in request.topics
        for each in topic.partitions
    ]
    return " ".join(["Fetch", session, *questions])


def step_line(step: FollowerStep) -> str:
    match step:
        case Append(records, watermark, log_start, restart_at):
            begin = "" if restart_at is None else f"begin at {restart_at}, "
            news = f"append {len(records)} bytes" if len(records) else "no records"
            return f"{begin}{news} watermark={watermark} start={log_start}"
        case TruncateTo(offset):
            return f"truncate to {offset}"
        case StartAt(offset):
            return f"start at {offset}"
        case AskEnd():
            return "ask for the end"
        case AskStart():
            return "ask for the start"
        case _:
            return str(step)
