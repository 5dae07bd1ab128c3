"""Observers of the nodes' own code, for the length of a simulated run.

The methods of quorum and controller are wrapped where they are looked up: no node knows of its
observer, and the observer sees the acts of a node instead of its reports. Nodes that run in another
thread of the process, such as an embedded one, are not observed.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any, Protocol
from unittest.mock import patch

from penstock.broker.broker import Broker
from penstock.broker.handlers.k00_produce import GeneralProduce
from penstock.broker.handlers.k01_fetch import PendingFetch
from penstock.broker.metadata.quorum_controller import QuorumController
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.produce.produce_cache import MultiPartitionAnswer, ProduceAnswer
from penstock.broker.transactions.remote_coordinators import RemoteMarkers
from penstock.broker.transactions.take_overs import TakeOver
from penstock.controller.broker_sessions import BrokerSessions, FenceStaleBroker
from penstock.errors import TransactionCoordinatorFenced
from penstock.log import log as log_module
from penstock.log.log import Log
from penstock.node.submission import Submission
from penstock.raft.quorum import Quorum
from penstock.raft.quorum_effects import QuorumEffect
from penstock.raft.quorum_events import QuorumRequest, QuorumResponse
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.replication.follower import PartitionFollower
from penstock.replication.leader import PartitionLeader
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse
from penstock.wire.messages.k62_broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.k63_broker_heartbeat import BrokerHeartbeatRequest

PRODUCE_ANSWERS = (ProduceAnswer, MultiPartitionAnswer, GeneralProduce)


class PartitionObserver(Protocol):
    """Gets the changes of replicas."""

    def adopts(self, replicas: Replicas, partition: Partition) -> None: ...
    def stores(self, log: Log, data: bytes) -> None: ...
    def truncates(self, log: Log, kept_to: int, end_offset: int) -> None: ...
    def out_of_range(self) -> None: ...
    def advanced(self, leader: PartitionLeader) -> None: ...
    def follows(self, partition: Partition) -> None: ...
    def leads(self, leader: PartitionLeader) -> None: ...
    def answers(self, partition: Partition | None) -> Partition | None: ...
    def acknowledges(self, answer: Any, base_offset: int) -> None: ...


class NodeObserver(Protocol):
    """Gets the events of all nodes, before they take effect."""

    @property
    def partitions(self) -> PartitionObserver: ...
    def performs(self, quorum: Quorum, effect: QuorumEffect) -> None: ...
    def stores(self, quorum: Quorum, data: bytes) -> None: ...
    def voted(self, quorum: Quorum, epoch: int, candidate_id: int) -> None:
        """Note that a vote leaves a voter."""
        ...

    def serves(self, broker: Broker, what: str) -> None:
        """Note that a broker acknowledges or reads records for a client."""
        ...

    def heartbeat_arrived(
        self, controller: QuorumController, message: BrokerHeartbeatRequest
    ) -> None: ...

    def registration_arrived(self, message: BrokerRegistrationRequest) -> None: ...

    def finds_stale(self, sessions: BrokerSessions, stale: FenceStaleBroker) -> None:
        """Note that the session of a broker has ended, as a controller counts it."""
        ...

    def writes_snapshot(self, quorum: Quorum, snapshot_id: MetadataSnapshotId) -> None: ...
    def controller_answered(self, message: Any, response: Any) -> None:
        """Note the answer to a heartbeat or a registration."""
        ...

    def coordinates(self, node_id: int, *, revokes: bool) -> None:
        """Note that a transaction coordinator sends markers, or a revocation, to another node."""
        ...

    def count(self, event: str) -> None: ...


@contextmanager
def silenced() -> Iterator[None]:
    """Drop all log lines inside the context: nodes under faults have much to report."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def observed(observer: NodeObserver) -> Iterator[None]:
    """Let the observer see all nodes of this thread inside the context."""
    own = get_ident()
    with ExitStack() as stack:

        def wrap(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
            plain = getattr(owner, name)
            watched = make(plain)

            def by_thread(*arguments: Any) -> Any:
                return (watched if get_ident() == own else plain)(*arguments)

            stack.enter_context(patch.object(owner, name, by_thread))

        wrap(Quorum, "_perform_one", lambda method: _performing(observer, method))
        wrap(Quorum, "_store", lambda method: _storing(observer, method))
        wrap(Quorum, "receive", lambda method: _receiving(observer, method))
        wrap(QuorumController, "submit", lambda method: _submitting(observer, method))
        wrap(Quorum, "write_snapshot", lambda method: _writing_snapshots(observer, method))
        wrap(BrokerSessions, "stale", lambda method: _finding_stale(observer, method))
        wrap(Submission, "_attempt_again", lambda method: _retrying(observer, method))
        wrap(Submission, "leader_changed", lambda method: _redirecting(observer, method))
        for each in PRODUCE_ANSWERS:
            wrap(each, "succeeded", lambda method: _succeeding(observer, method))
        wrap(RemoteMarkers, "write", lambda method: _coordinating(observer, method))
        wrap(TakeOver, "_revoke_there", lambda method: _coordinating(observer, method))
        wrap(log_module, "check_marker", lambda function: _judging_markers(observer, function))
        wrap(PendingFetch, "_read_partition", lambda method: _reading(observer, method))
        _observe_partitions(observer.partitions, wrap)
        yield


def _observe_partitions(
    observer: PartitionObserver, wrap: Callable[[Any, str, Callable[[Any], Any]], None]
) -> None:
    wrap(Replicas, "adopt", lambda method: _adopting(observer, method))
    wrap(Log, "_commit", lambda method: _appending(observer, method))
    wrap(Log, "shorten", lambda method: _truncating(observer, method))
    for name in ("advance", "_advance_with_followers"):
        wrap(PartitionLeader, name, lambda method: _advancing(observer, method))
    wrap(PartitionFollower, "end_known", lambda method: _leaving_range(observer, method))
    wrap(Partition, "follow_offsets", lambda method: _following(observer, method))
    wrap(PartitionLeader, "begin", lambda method: _leading(observer, method))
    for name in ("append_turn", "release"):
        wrap(Partition, name, lambda method: _answering(observer, method))


def _performing(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def perform(quorum: Quorum, effect: QuorumEffect) -> None:
        observer.performs(quorum, effect)
        method(quorum, effect)

    return perform


def _storing(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def store(quorum: Quorum, data: bytes) -> None:
        method(quorum, data)
        observer.stores(quorum, data)

    return store


def _receiving(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def receive(
        quorum: Quorum, request: QuorumRequest, reply: Callable[[QuorumResponse], None]
    ) -> None:
        def answered(response: QuorumResponse) -> None:
            if isinstance(request, VoteRequest) and isinstance(response, VoteResponse):
                _note_vote(observer, quorum, request, response)
            reply(response)

        method(quorum, request, answered if isinstance(request, VoteRequest) else reply)

    return receive


def _note_vote(
    observer: NodeObserver, quorum: Quorum, request: VoteRequest, response: VoteResponse
) -> None:
    if not response.topics:
        return
    asked, granted = request.topics[0].partitions[0], response.topics[0].partitions[0].vote_granted
    if asked.pre_vote:
        observer.count(f"pre-votes {'granted' if granted else 'denied'}")
    elif granted:
        observer.voted(quorum, asked.replica_epoch, asked.replica_id)


def _submitting(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def submit(
        controller: QuorumController, message: Any, version: int, done: Callable[[Any], None]
    ) -> None:
        if not isinstance(message, BrokerHeartbeatRequest | BrokerRegistrationRequest):
            method(controller, message, version, done)
            return

        def answered(response: Any) -> None:
            observer.controller_answered(message, response)
            done(response)

        if isinstance(message, BrokerHeartbeatRequest):
            observer.heartbeat_arrived(controller, message)
        else:
            observer.registration_arrived(message)
        method(controller, message, version, answered)

    return submit


def _writing_snapshots(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def write_snapshot(quorum: Quorum, snapshot_id: MetadataSnapshotId, *rest: Any) -> None:
        observer.writes_snapshot(quorum, snapshot_id)
        method(quorum, snapshot_id, *rest)

    return write_snapshot


def _finding_stale(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def stale(sessions: BrokerSessions, *arguments: Any) -> FenceStaleBroker | None:
        found: FenceStaleBroker | None = method(sessions, *arguments)
        if found is not None:
            observer.finds_stale(sessions, found)
        return found

    return stale


def _retrying(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def attempt_again(submission: Submission) -> None:
        observer.count("forwarded requests retried")
        method(submission)

    return attempt_again


def _redirecting(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def leader_changed(submission: Submission) -> None:
        observer.count("forwarded requests redirected")
        method(submission)

    return leader_changed


def _succeeding(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def succeeded(answer: Any, ticket: Any, base_offset: int, append_time_ms: int) -> None:
        observer.serves(ticket[1].listener.broker, "acknowledges")
        observer.partitions.acknowledges(answer, base_offset)
        method(answer, ticket, base_offset, append_time_ms)

    return succeeded


def _reading(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def read(fetch: PendingFetch, *given: Any) -> Any:
        answer = method(fetch, *given)
        observer.serves(fetch._broker, "reads")
        return answer

    return read


def _coordinating(observer: NodeObserver, method: Any) -> Callable[..., Any]:
    def send(sender: RemoteMarkers | TakeOver, *given: Any) -> None:
        method(sender, *given)
        observer.coordinates(sender._broker.node_id, revokes=isinstance(sender, TakeOver))

    return send


def _judging_markers(observer: NodeObserver, function: Any) -> Callable[..., Any]:
    def check_marker(*given: Any) -> None:
        try:
            function(*given)
        except TransactionCoordinatorFenced:
            observer.count("markers of former coordinators rejected")
            raise

    return check_marker


def _adopting(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def adopt(replicas: Replicas, partition: Partition) -> None:
        observer.adopts(replicas, partition)
        method(replicas, partition)

    return adopt


def _appending(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def commit(log: Log, stage: Any, leader_epoch: int) -> None:
        method(log, stage, leader_epoch)
        observer.stores(log, b"".join(stage.parts))

    return commit


def _truncating(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def shorten(log: Log, active: Any, closed: Any, end_offset: int) -> None:
        is_empty = not closed and not active.size
        observer.truncates(log, 0 if is_empty else end_offset, end_offset)
        method(log, active, closed, end_offset)

    return shorten


def _advancing(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def advance(leader: PartitionLeader, *given: Any) -> Any:
        moved = method(leader, *given)
        if moved:
            observer.advanced(leader)
        return moved

    return advance


def _leaving_range(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def end_known(follower: PartitionFollower, *given: Any) -> Any:
        observer.out_of_range()
        return method(follower, *given)

    return end_known


def _following(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def follow_offsets(partition: Partition, *given: Any) -> None:
        method(partition, *given)
        observer.follows(partition)

    return follow_offsets


def _leading(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def begin(leader: PartitionLeader, *given: Any) -> None:
        method(leader, *given)
        observer.leads(leader)

    return begin


def _answering(observer: PartitionObserver, method: Any) -> Callable[..., Any]:
    def answer(partition: Partition, *given: Any) -> None:
        before = observer.answers(partition)
        try:
            method(partition, *given)
        finally:
            observer.answers(before)

    return answer
