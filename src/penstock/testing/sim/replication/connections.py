"""Connections between simulated nodes: in order each, and independent of each other.

A request that is given up closes its connection. Its requests may still arrive, after those of a
later connection. A broken connection loses all that follows, and the sender learns it
at once or by its timeout.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.testing.sim.replication.simulation import ReplicationSimulation

HANG_CHANCE = 0.4
TAIL_CHANCE = 0.05
TAIL_FACTOR = 3.0  # of the timeout of requests

SendAnswer = Callable[[Any], None]


class Endpoint(Protocol):
    """A node, or the controller."""

    node_id: int
    life: int  # 0 while the process does not run
    paused_until_ms: float


class MessageConnection:
    """A connection of one life of a node with one life of another."""

    __slots__ = ("answered_ms", "is_broken", "is_open", "receiver", "receiver_life", "sender",
                 "sender_life", "sent_ms")  # fmt: skip

    def __init__(self, sender: Endpoint, receiver: Endpoint) -> None:
        self.sender = sender
        self.receiver = receiver
        self.sender_life = sender.life
        self.receiver_life = receiver.life
        self.is_open = True
        self.is_broken = False
        self.sent_ms = 0.0  # the last arrival in each direction
        self.answered_ms = 0.0


class SimConnections:
    """All connections. `blocked` holds pairs of sender and receiver."""

    def __init__(self, simulation: "ReplicationSimulation") -> None:
        self._simulation = simulation
        self.blocked: dict[tuple[int, int], None] = {}
        self.loss_chance = simulation.draw.loss_chance

    def _arrival_ms(self, after_ms: float) -> float:
        simulation = self._simulation
        delay_ms = simulation.chance.random() * 2 * simulation.draw.network_ms
        if simulation.chance.random() < TAIL_CHANCE and not simulation.is_healed:
            delay_ms = simulation.chance.random() * TAIL_FACTOR * simulation.draw.request_timeout_ms
        return max(after_ms, simulation.now_ms + delay_ms)

    def _is_lost(self, sender_id: int, receiver_id: int) -> bool:
        if (sender_id, receiver_id) in self.blocked:
            return True
        return self.loss_chance > 0 and self._simulation.chance.random() < self.loss_chance

    def ask(
        self,
        connection: MessageConnection,
        handle: Callable[[SendAnswer], None],
        answered: Callable[[Any], None],
        timeout_ms: float,
    ) -> None:
        """Run `handle` at the receiver and `answered` with the answer at the sender; with None if
        there is none."""
        simulation, sender, receiver = self._simulation, connection.sender, connection.receiver

        def give_up() -> None:
            if not is_over[0]:
                finish(None)

        def finish(answer: Any) -> None:
            is_over[0] = True
            if answer is None:
                connection.is_open = False
            answered(answer)

        def reply(answer: Any) -> None:
            connection.answered_ms = self._arrival_ms(connection.answered_ms)
            if connection.is_broken or self._is_lost(receiver.node_id, sender.node_id):
                lose()
            else:
                simulation.at(
                    connection.answered_ms, sender, lambda: arrive_back(answer), sender_life
                )

        def arrive_back(answer: Any) -> None:
            if connection.is_open and not is_over[0]:
                finish(answer)

        def lose() -> None:
            connection.is_broken = True
            if simulation.chance.random() >= HANG_CHANCE:
                at_ms = self._arrival_ms(simulation.now_ms)
                simulation.at(at_ms, sender, give_up, sender_life)

        def arrive() -> None:
            if sender.life != sender_life and not is_over[0]:
                # The request of an ended process may stay in the network for a while.
                is_over[0] = True
                delay_ms = simulation.chance.random() * TAIL_FACTOR * timeout_ms
                simulation.at(simulation.now_ms + delay_ms, receiver, arrive)
            elif receiver.life != connection.receiver_life or not receiver.life:
                lose()
            else:
                if is_over[0] or not connection.is_open:
                    simulation.checker.counters["late requests"] += 1
                handle(reply)

        is_over = [False]
        sender_life = connection.sender_life
        simulation.at(simulation.now_ms + timeout_ms, sender, give_up, sender_life)
        if connection.is_broken or self._is_lost(sender.node_id, receiver.node_id):
            lose()
            return
        connection.sent_ms = self._arrival_ms(connection.sent_ms)
        simulation.at(connection.sent_ms, receiver, arrive)
