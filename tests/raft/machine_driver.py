"""One machine of the quorum under test: time and events go in, requests and replies come out."""

from dataclasses import replace
from typing import Any, TypeVar

from penstock.model import CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID
from penstock.raft.log_view import EpochStart, LogView
from penstock.raft.machine import QuorumMachine
from penstock.raft.quorum_effects import QuorumEffect, SendReply, SendRequest, SyncLog
from penstock.raft.quorum_events import (
    AnswerArrived,
    LeaderAppended,
    LogSynced,
    QuorumEvent,
    QuorumRequest,
    QuorumResponse,
    RequestArrived,
    TimePassed,
)
from penstock.raft.quorum_state import QuorumState
from penstock.raft.replica import ReplicaSettings
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k01_fetch as fetch
from penstock.wire.messages import k52_vote as vote
from penstock.wire.messages import k53_begin_quorum_epoch as begin
from penstock.wire.messages import k54_end_quorum_epoch as end
from penstock.wire.messages import k59_fetch_snapshot as fetch_snapshot
from penstock.wire.structures import QuorumPartitionResult, QuorumTopicResult

Effect = TypeVar("Effect", bound=QuorumEffect)

CLUSTER = "this-cluster"
SETTINGS = ReplicaSettings(cluster_id=CLUSTER)
ELECTION_MS = 1000.0  # without randomness an election timeout takes its shortest time
FETCH_MS = 2000.0


def directory(node_id: int) -> bytes:
    return b"directory-%06d" % node_id


def voter(node_id: int) -> QuorumVoter:
    return QuorumVoter(
        node_id, directory(node_id), (VoterEndpoint("CONTROLLER", f"node-{node_id}", 9093),)
    )


def log_of(*epochs: tuple[int, int], end: int) -> LogView:
    """Return a log with these epochs and their start offsets."""
    return LogView(0, end, [EpochStart(*each) for each in epochs])


def batch_of(offset: int, epoch: int, value: bytes = b"x") -> bytes:
    return build_batch([Record(offset, 0, None, value)], base_offset=offset, leader_epoch=epoch)


class MachineDriver:
    """A machine that has started. Syncs end at once unless `hold_syncs` is set."""

    def __init__(
        self,
        node_id: int = 1,
        voter_ids: tuple[int, ...] = (1, 2, 3),
        *,
        stored: QuorumState | None = None,
        log: LogView | None = None,
        settings: ReplicaSettings = SETTINGS,
        kraft_version: int = 1,
        hold_syncs: bool = False,
    ) -> None:
        voters = tuple(voter(each) for each in voter_ids)
        if kraft_version == 0:
            voters = tuple(replace(each, directory_id=bytes(16)) for each in voters)
        self.history = VoterHistory(voters if kraft_version == 0 else ())
        if kraft_version > 0:
            # The records of the voters are in the log, in its first batch.
            self.history.load(1 if log and log.end_offset else 0, kraft_version, voters)
        self.now_ms = 10_000.0
        self.hold_syncs = hold_syncs
        self.in_flight: dict[int, SendRequest] = {}
        self.machine = QuorumMachine(
            voter(node_id), settings, log or LogView(), self.history, lambda _limit: 0
        )
        self._replies = 0
        self.effects: list[QuorumEffect] = []
        self._note(self.machine.start(stored, self.now_ms))

    @property
    def role(self) -> str:
        return type(self.machine.replica.role).__name__.removesuffix("Role")

    def _note(self, effects: list[QuorumEffect]) -> None:
        self.effects = list(effects)
        while effects:
            for effect in effects:
                if isinstance(effect, SendRequest):
                    self.in_flight[effect.node_id] = effect
            if self.hold_syncs or not any(isinstance(each, SyncLog) for each in effects):
                return
            effects = self.machine.step(LogSynced(), self.now_ms)
            self.effects += effects

    def step(self, event: QuorumEvent) -> list[QuorumEffect]:
        self._note(self.machine.step(event, self.now_ms))
        return self.effects

    def wait(self, span_ms: float) -> list[QuorumEffect]:
        self.now_ms += span_ms
        return self.step(TimePassed())

    def sync(self) -> list[QuorumEffect]:
        return self.step(LogSynced())

    def ask(self, request: QuorumRequest) -> QuorumResponse | None:
        """Return the reply to a request; None if the request is parked."""
        self._replies += 1
        self.step(RequestArrived(self._replies, request))
        return self.reply_to(self._replies)

    def reply_to(self, number: int) -> QuorumResponse | None:
        found = [e for e in self.effects if isinstance(e, SendReply) and e.reply_to == number]
        return found[0].response if found else None

    def answer(self, node_id: int, response: QuorumResponse) -> list[QuorumEffect]:
        """Answer the request that is in flight to a node."""
        return self.step(AnswerArrived(self.in_flight[node_id].request_id, response))

    def only(self, kind: type[Effect]) -> Effect:
        """Return the only effect of a kind in the last step."""
        (found,) = self.all(kind)
        return found

    def all(self, kind: type[Effect]) -> list[Effect]:
        return [each for each in self.effects if isinstance(each, kind)]

    def sent(self) -> dict[int, QuorumRequest]:
        """Return the requests of the last step by their receivers."""
        return {each.node_id: each.request for each in self.all(SendRequest)}

    # -- whole stories

    def elect(self) -> None:
        """Make this voter the leader of the next epoch, with the vote of one other voter."""
        peer = next(v.node_id for v in self.history.latest if v.node_id != 1)
        self.wait(FETCH_MS)
        self.answer(peer, vote_answer(self.machine.epoch, granted=True))
        self.answer(peer, vote_answer(self.machine.epoch, granted=True))
        assert self.machine.is_leader

    def append(self, value: bytes = b"x") -> list[QuorumEffect]:
        return self.step(
            LeaderAppended(batch_of(self.machine.end_offset, self.machine.epoch, value))
        )


# -- messages


def vote_request(
    sender: int = 2, epoch: int = 1, last: tuple[int, int] = (0, 0), **options: Any
) -> vote.VoteRequest:
    """Return a request for a vote; `last` is the last epoch and the end of the sender's log."""
    partition = vote.RequestPartitionData(
        replica_epoch=epoch,
        replica_id=sender,
        replica_directory_id=directory(sender),
        voter_directory_id=options.get("voter_directory", directory(1)),
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=options.get("pre_vote", False),
        partition_index=options.get("partition", 0),
    )
    topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=options.get("cluster", CLUSTER),
        voter_id=options.get("voter", 1),
        topics=[topic],
    )


def vote_result(response: QuorumResponse | None) -> tuple[int, bool]:
    """Return error code and verdict of an answered vote."""
    assert isinstance(response, vote.VoteResponse)
    if not response.topics:
        return response.error_code, False
    partition = response.topics[0].partitions[0]
    return partition.error_code, partition.vote_granted


def vote_answer(
    epoch: int, *, granted: bool, leader: int = -1, error: int = 0
) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        error_code=error, leader_id=leader, leader_epoch=epoch, vote_granted=granted
    )
    topic = vote.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteResponse(topics=[topic])


def begin_request(leader: int = 2, epoch: int = 1, **options: Any) -> begin.BeginQuorumEpochRequest:
    partition = begin.RequestPartitionData(
        leader_id=leader,
        leader_epoch=epoch,
        voter_directory_id=options.get("voter_directory", directory(1)),
    )
    topic = begin.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochRequest(
        cluster_id=options.get("cluster", CLUSTER), voter_id=options.get("voter", 1), topics=[topic]
    )


def end_request(
    leader: int = 2, epoch: int = 1, successors: tuple[int, ...] = (), **options: Any
) -> end.EndQuorumEpochRequest:
    partition = end.RequestPartitionData(
        leader_id=leader,
        leader_epoch=epoch,
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=each, candidate_directory_id=directory(each))
            for each in successors
        ],
    )
    topic = end.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end.EndQuorumEpochRequest(cluster_id=options.get("cluster", CLUSTER), topics=[topic])


def epoch_error(response: QuorumResponse | None) -> int:
    """Return the error code of an answered BeginQuorumEpoch or EndQuorumEpoch."""
    assert isinstance(response, begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse)
    return response.topics[0].partitions[0].error_code if response.topics else response.error_code


def end_answer(epoch: int, leader: int) -> end.EndQuorumEpochResponse:
    partition = QuorumPartitionResult(leader_id=leader, leader_epoch=epoch)
    topic = QuorumTopicResult(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end.EndQuorumEpochResponse(topics=[topic])


def fetch_request(
    replica: int = 2, epoch: int = 1, offset: int = 0, last_epoch: int = 0, **options: Any
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=options.get("replica_directory", directory(replica)),
        high_watermark=options.get("high_watermark", -1),
        partition=options.get("partition", 0),
    )
    topic = fetch.FetchTopic(
        topic_id=options.get("topic_id", METADATA_TOPIC_ID), partitions=[partition]
    )
    return fetch.FetchRequest(
        cluster_id=options.get("cluster", CLUSTER),
        replica_state=fetch.ReplicaState(replica_id=replica),
        max_wait_ms=options.get("wait_ms", 500),
        topics=[topic],
    )


def fetched(response: QuorumResponse | None) -> fetch.PartitionData:
    """Return the partition of an answered fetch."""
    assert isinstance(response, fetch.FetchResponse)
    return response.responses[0].partitions[0]


def fetch_answer(leader: int, epoch: int, **fields: Any) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch), **fields
    )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return fetch.FetchResponse(responses=[topic])


def snapshot_request(
    replica: int = 2, epoch: int = 1, snapshot: tuple[int, int] = (5, 1), position: int = 0
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.RequestPartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        position=position,
        replica_directory_id=directory(replica),
    )
    topic = fetch_snapshot.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=CLUSTER, replica_id=replica, topics=[topic]
    )


def sliced(response: QuorumResponse | None) -> fetch_snapshot.ResponsePartitionSnapshot:
    """Return the partition of an answered FetchSnapshot."""
    assert isinstance(response, fetch_snapshot.FetchSnapshotResponse)
    return response.topics[0].partitions[0]


def snapshot_answer(
    leader: int, epoch: int, snapshot: tuple[int, int], size: int, position: int, data: bytes
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot[0], epoch=snapshot[1]),
        size=size,
        position=position,
        unaligned_records=data,
    )
    partition.current_leader.leader_id = leader
    partition.current_leader.leader_epoch = epoch
    topic = fetch_snapshot.ResponseTopicSnapshot(
        name=CLUSTER_METADATA_TOPIC, partitions=[partition]
    )
    return fetch_snapshot.FetchSnapshotResponse(topics=[topic])
