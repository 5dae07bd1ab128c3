"""The network between simulated replicas: delays, losses and partitions between hosts.

Each request has a connection of its own, so requests overtake each other. A lost message is a
connection that breaks (the sender learns it) or hangs (the sender waits for its timeout).
"""

from typing import TYPE_CHECKING, NamedTuple

from penstock.raft.quorum_effects import SendReply, SendRequest
from penstock.raft.quorum_events import (
    AnswerArrived,
    QuorumRequest,
    QuorumResponse,
    RequestArrived,
    RequestFailed,
)
from penstock.wire.codec import read, write
from penstock.wire.schema import schema_of

if TYPE_CHECKING:
    from penstock.testing.sim.quorum.sim_replica import SimReplica
    from penstock.testing.sim.quorum.simulation import QuorumSimulation

HANG_CHANCE = 0.4  # of all lost messages
TAIL_CHANCE = 0.04
TAIL_FACTOR = 20.0


class AskedRequest(NamedTuple):
    """A request on its way: its sender, in which life, and the connection for the answer."""

    sender: "SimReplica"
    receiver_id: int
    life: int
    request_id: int
    request: QuorumRequest


class QuorumNetwork:
    """Connections between all replicas. `blocked` holds pairs of sender and receiver."""

    def __init__(self, simulation: "QuorumSimulation", *, is_encoded: bool) -> None:
        self._simulation = simulation
        self._is_encoded = is_encoded
        self._asked: dict[int, AskedRequest] = {}
        self._last_reply_to = 0
        self.blocked: dict[tuple[int, int], bool] = {}
        self.loss_chance = 0.0

    def _delay_ms(self) -> float:
        chance = self._simulation.chance
        delay_ms = chance.random() * 2 * self._simulation.draw.network_ms
        return delay_ms * TAIL_FACTOR if chance.random() < TAIL_CHANCE else delay_ms

    def _is_lost(self, sender_id: int, receiver_id: int) -> bool:
        if (sender_id, receiver_id) in self.blocked:
            return True
        return self.loss_chance > 0 and self._simulation.chance.random() < self.loss_chance

    def send(self, sender: "SimReplica", effect: SendRequest) -> None:
        receiver = self._simulation.replicas[effect.node_id]
        asked = AskedRequest(
            sender, receiver.node_id, sender.life, effect.request_id, effect.request
        )
        delay_ms = self._delay_ms()
        if self._is_lost(sender.node_id, receiver.node_id):
            self._lose(asked, delay_ms)
        else:
            self._simulation.deliver(delay_ms, receiver, lambda: self._arrive(receiver, asked))

    def _arrive(self, receiver: "SimReplica", asked: AskedRequest) -> None:
        if receiver.machine is None:
            self._lose(asked, self._delay_ms())
            return
        self._last_reply_to += 1
        self._asked[self._last_reply_to] = asked
        request = self._duplicate(asked.request) if self._is_encoded else asked.request
        receiver.step(RequestArrived(self._last_reply_to, request))

    def reply(self, replier: "SimReplica", effect: SendReply) -> QuorumRequest:
        """Send an answer; return the request that is answered."""
        asked = self._asked.pop(effect.reply_to)
        response = (
            self._duplicate_response(effect.response) if self._is_encoded else effect.response
        )
        event = AnswerArrived(asked.request_id, response)
        delay_ms = self._delay_ms()
        if self._is_lost(replier.node_id, asked.sender.node_id):
            self._lose(asked, delay_ms)
        else:
            self._to_sender(delay_ms, asked, event)
        return asked.request

    def drop_requests_at(self, receiver_id: int) -> None:
        """Break or hang the connections of a node that has ended."""
        waiting = [each for each, asked in self._asked.items() if asked.receiver_id == receiver_id]
        for reply_to in waiting:
            self._lose(self._asked.pop(reply_to), self._delay_ms())

    def _lose(self, asked: AskedRequest, delay_ms: float) -> None:
        if self._simulation.chance.random() >= HANG_CHANCE:
            self._to_sender(delay_ms, asked, RequestFailed(asked.request_id))

    def _to_sender(
        self, delay_ms: float, asked: AskedRequest, event: AnswerArrived | RequestFailed
    ) -> None:
        sender = asked.sender

        def arrive() -> None:
            if sender.life == asked.life:
                sender.step(event)

        self._simulation.deliver(delay_ms, sender, arrive)

    # -- the codec, in some seeds

    def _duplicate(self, request: QuorumRequest) -> QuorumRequest:
        version = schema_of(type(request)).versions.last
        return read(type(request), version, write(request, version))

    def _duplicate_response(self, response: QuorumResponse) -> QuorumResponse:
        version = schema_of(type(response)).versions.last
        return read(type(response), version, write(response, version))
