"""What one Produce request costs the broker by itself: no sockets, no disk, one process.

Processor time, the least of several rounds, so that it can be compared on a busy machine:

    python -m bench.produce_cost
"""

import gc
import time
from collections.abc import Sequence

from penstock.broker.broker import Broker
from penstock.config.broker import BrokerConfig
from penstock.node import PenstockNode
from penstock.testing.sim.world import Simulation, SimWorld
from penstock.wire.batch import Record, build_batch
from penstock.wire.frame import request_frame
from penstock.wire.messages.k00_produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.wire.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from penstock.world import Part, Receiver

ROUNDS = 15
REQUESTS_PER_ROUND = 4_000
PRODUCE, PRODUCE_VERSION, CREATE_TOPICS, CREATE_TOPICS_VERSION = 0, 11, 19, 7


class Sink:
    """A peer that takes everything and keeps nothing."""

    address = ("10.0.0.1", 5000)
    identity = None
    unsent_bytes = 0

    def __init__(self) -> None:
        self.sends = 0

    def send(self, _parts: Sequence[Part]) -> None:
        self.sends += 1

    def hand_over(self, receiver: Receiver) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def has_ended(self) -> bool:
        return False

    def finish(self) -> None: ...
    def close(self) -> None: ...


class Serving:
    """A node in a simulated world with one topic."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.simulation = Simulation(7)
        self.world = SimWorld(self.simulation)
        base = {"listeners": "PLAINTEXT://node:9092", "log.dirs": "data"}
        self.node = PenstockNode(self.world, BrokerConfig.of({**base, **settings}))
        ready: list[bool] = []
        self.node.start(lambda: ready.append(True), lambda: None)
        self.simulation.run_until(lambda: bool(ready))
        sink = Sink()
        connection = self.broker.listeners[0].accept(sink)
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        message = CreateTopicsRequest(topics=[topic])
        frame = request_frame(CREATE_TOPICS, CREATE_TOPICS_VERSION, 1, "bench", message)
        connection.received(memoryview(frame))
        self.world.end_turn()
        self.simulation.run_until(lambda: bool(sink.sends))

    @property
    def broker(self) -> Broker:
        assert self.node.broker is not None, "it serves"
        return self.node.broker

    def cost_ns(self, acks: int, per_turn: int) -> float:
        """Of one request, `per_turn` of which come with each turn."""
        batch = build_batch([Record(0, 1_750_000_000_000, None, b"x" * 100)])
        data = PartitionProduceData(index=0, records=batch)
        message = ProduceRequest(
            acks=acks,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name="t", partition_data=[data])],
        )
        frame = request_frame(PRODUCE, PRODUCE_VERSION, 1, "bench", message)
        frames = memoryview(frame * per_turn)
        connection = self.broker.listeners[0].accept(Sink())
        turns = REQUESTS_PER_ROUND // per_turn
        awaiting = self.broker.replicas.by_name["t"][0]
        least = float("inf")
        for _ in range(ROUNDS):
            began = time.process_time_ns()
            for _ in range(turns):
                connection.received(frames)
                self.world.end_turn()
                if awaiting.awaiting:
                    self.simulation.run_until(lambda: not awaiting.awaiting)
            least = min(least, (time.process_time_ns() - began) / (turns * per_turn))
        return least


def main() -> None:
    gc.disable()
    for durability, acks, per_turn in (
        ("page-cache", 1, 1),
        ("page-cache", -1, 1),
        ("page-cache", 1, 50),
        ("fsync", -1, 50),
    ):
        cost = Serving({"log.durability": durability}).cost_ns(acks, per_turn)
        how = f"{durability}, acks={acks}, {per_turn} per turn"
        print(f"{how:40} {cost:8,.0f} ns per request")


if __name__ == "__main__":
    main()
