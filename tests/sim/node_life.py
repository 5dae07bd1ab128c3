"""A node, its clients and its deaths, all from one seed; and the judges of what they were told."""

from collections.abc import Mapping

from penstock.config.broker import BrokerConfig
from penstock.controller.image import Image
from penstock.node import PenstockNode
from penstock.testing.sim.client import (
    ClientObservations,
    Place,
    SimAdmin,
    SimClient,
    SimConsumer,
    SimProducer,
)
from penstock.testing.sim.world import Simulation, SimWorld, WorldDisk

ADDRESS = ("node", 9092)
ROOT = "data"
LIFE_MS = (20.0, 1_500.0)
STOP_MS_MAX = 30_000
FINISH_MS_MAX = 3_600_000
LASTING = (("orders", 3), ("events", 1))


class NodeLife:
    """One simulation. `power` says whether its deaths also lose what was not synced."""

    def __init__(self, seed: int, durability: str, *, power: bool) -> None:
        self.simulation = Simulation(seed)
        self.chance = self.simulation.chance
        self.durability = durability
        self.power = power
        self.ledger = ClientObservations()
        self.disks: dict[str, WorldDisk] = {}
        self.world: SimWorld
        self.node: PenstockNode
        self.ready = self.stopped = self.troubled = False
        self._settings = self._draw_settings()
        self.admin = SimAdmin(
            self.simulation,
            "admin",
            ADDRESS,
            self.ledger,
            LASTING,
            passing=8,
            configs={
                "internal.segment.bytes": str(self.chance.choice((170_000, 400_000, 1 << 20)))
            },
        )
        self.producers = self._make_producers()
        self.consumers = [
            SimConsumer(self.simulation, f"consumer-{topic}-{n}", ADDRESS, self.ledger, topic)
            for topic, _ in LASTING
            for n in range(2)
        ]

    def _draw_settings(self) -> dict[str, str]:
        pick = self.chance.choice
        return {
            "listeners": f"PLAINTEXT://{ADDRESS[0]}:{ADDRESS[1]}",
            "log.dirs": ROOT,
            "log.durability": self.durability,
            "log.index.interval.bytes": str(pick((100, 4096))),
            "log.flush.offset.checkpoint.interval.ms": str(pick((100, 60_000))),
            "replica.high.watermark.checkpoint.interval.ms": str(pick((70, 5_000))),
            "log.segment.delete.delay.ms": str(pick((0, 200))),
            "compression.type": pick(("producer", "producer", "lz4", "zstd", "uncompressed")),
            "log.flush.interval.messages": str(pick((1, 7, 2**63 - 1))),
            "log.flush.interval.ms": str(pick((50, 2**63 - 1))),
            "log.preallocate": pick(("true", "false")),
            "queued.max.requests": str(pick((1, 500))),
            "metadata.log.max.record.bytes.between.snapshots": str(pick((1_000, 20_000_000))),
            "offsets.topic.replication.factor": "1",
        }

    def _make_producers(self) -> list[SimProducer]:
        def make(name: str, topic: str, *, idempotent: bool, acks: int = -1) -> SimProducer:
            batches = self.chance.randint(5, 30)
            return SimProducer(
                self.simulation,
                name,
                ADDRESS,
                self.ledger,
                topic,
                idempotent=idempotent,
                acks=acks,
                batches=batches,
            )

        return [
            make("idempotent-1", "orders", idempotent=True),
            make("idempotent-2", "orders", idempotent=True),
            make("idempotent-3", "events", idempotent=True),
            make("plain-all", "orders", idempotent=False),
            make("plain-one", "orders", idempotent=False, acks=1),
            make("plain-passing", "passing-0", idempotent=False),
        ]

    # -- the node's lives

    def start(self) -> None:
        self.world = SimWorld(
            self.simulation,
            "node",
            disks=self.disks,
            skew_ms=self.chance.choice((0, 0, -5_000, 60_000)),
            read_cost_ms=self.chance.choice((0.0, 0.0, 0.5)),
        )
        if self.chance.random() < 0.3:
            self.world.disk(ROOT).cold = True
        self.ready = self.stopped = False
        self.node = PenstockNode(self.world, BrokerConfig.of(self._settings))
        self.node.start(self._is_ready, self._is_stopped)

    def _is_ready(self) -> None:
        self.ready = True

    def _is_stopped(self) -> None:
        self.stopped = True
        assert self.node.failure is None, self.node.failure

    def die(self) -> None:
        """At this very moment, whatever it was doing."""
        self.simulation.note("die\n")
        self.world.kill()
        self._inherit()

    def _inherit(self) -> None:
        # A mere kill before a loss of power: what recovery took over must become durable too.
        if self.power and self.chance.random() < 0.6:
            self.disks = self.world.disks_after_power_loss()
        else:
            self.disks = self.world.disks_after_kill()

    def stop_cleanly(self) -> Image:
        """What the committed metadata was when it ended."""
        self.simulation.note("stop\n")
        self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
        self._let_producers_settle()
        metadata = self.node.metadata
        assert metadata is not None, "a node that serves has metadata"
        self.node.stop()
        self.simulation.run_until(lambda: self.stopped, STOP_MS_MAX)
        self.world.kill()
        # A clean stop leaves nothing to a later loss of power, whatever the durability.
        self.disks = self.world.disks_after_power_loss()
        return metadata.image

    def _let_producers_settle(self) -> None:
        """The snapshot of a clean stop keeps one batch of each producer, as Kafka's does: older
        ones whose acknowledgement was lost could not be told from new ones afterwards."""
        idempotent = [each for each in self.producers if each.name.startswith("idempotent")]
        for producer in idempotent:
            producer.hold(True)
        self.simulation.run_until(lambda: all(each.settled for each in idempotent), FINISH_MS_MAX)
        for producer in idempotent:
            producer.hold(False)

    def live(self) -> None:
        """Serve for a while, with breaking connections and clients that stop reading."""
        until = self.simulation.now_ms + self.chance.uniform(*LIFE_MS)
        while self.simulation.now_ms < until:
            self.simulation.run_for(self.chance.uniform(1.0, 100.0))
            if self.chance.random() < 0.2:
                self.simulation.network.break_one()
            if self.chance.random() < 0.1:
                self.chance.choice(self.clients).stop_reading(self.chance.uniform(1.0, 300.0))

    @property
    def clients(self) -> list[SimClient]:
        return [self.admin, *self.producers, *self.consumers]

    # -- the whole story

    def run(self) -> None:
        self.start()
        for client in self.clients:
            client.start()
        for _ in range(self.chance.randint(1, 5)):
            self.live()
            if self.chance.random() < 0.2:
                before = self.stop_cleanly()
                self.start()
                self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
                judge_replay(before, self.image)
            else:
                self.die()
                self.start()
                if self.chance.random() < 0.8:  # else it may die again before it is ready
                    self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
                    judge_topics(self.ledger, self.image)
        self._finish()

    @property
    def image(self) -> Image:
        assert self.node.metadata is not None, "a node that serves has metadata"
        return self.node.metadata.image

    def _finish(self) -> None:
        """No more trouble: everybody gets what they wait for, then everything is judged."""
        self.simulation.run_until(lambda: self.ready, STOP_MS_MAX)
        lasting = [each for each in self.producers if each.name != "plain-passing"]
        self.simulation.run_until(
            lambda: self.admin.finished and all(each.finished for each in lasting), FINISH_MS_MAX
        )
        self.simulation.run_until(self._all_read, FINISH_MS_MAX)
        last = ClientObservations()
        for topic, _ in LASTING:
            reader = SimConsumer(self.simulation, f"reader-{topic}", ADDRESS, last, topic)
            self.consumers.append(reader)
            reader.start()
        self.simulation.run_until(self._all_read, FINISH_MS_MAX)
        judge_topics(self.ledger, self.image)
        judge_records(self.ledger, last, one_counts=not self.power)
        self._judge_leftovers()

    def _all_read(self) -> bool:
        assert self.node.broker is not None, "a node that serves has a broker"
        for consumer in self.consumers:
            topic = consumer.name.split("-")[1]
            hosted = self.node.broker.replicas.by_name[topic]
            for index, partition in hosted.items():
                if consumer.positions.get(index, -1) < partition.log.end_offset:
                    return False
        return True

    def _judge_leftovers(self) -> None:
        """When everybody has left, nothing of them is held."""
        broker = self.node.broker
        assert broker is not None, "a node that serves has a broker"
        for client in self.clients:
            client.stop()
            if client.link is not None:
                client.link.peer.resume()
                client.link.peer.close()
        self.simulation.run_until(lambda: not broker.listeners[0].connections, STOP_MS_MAX)
        self.simulation.run_for(1_000)
        assert broker.frames.lent_bytes == 0
        waiting = [str(each) for each in broker.replicas.all() if each.awaiting or each.batches]
        assert not waiting, f"still waiting: {waiting}"


def judge_replay(before: Image, after: Image) -> None:
    """After a clean stop the metadata says what it said."""
    assert set(before.topics) == set(after.topics)
    for name, topic in before.topics.items():
        assert after.topics[name].topic_id == topic.topic_id
        assert list(after.topics[name].partitions) == list(topic.partitions)
    assert before.configs == after.configs


def judge_topics(ledger: ClientObservations, image: Image) -> None:
    for name, (topic_id, partitions) in ledger.created.items():
        if name not in ledger.uncertain:
            assert name in image.topics, f"{name} was created, and is gone"
            assert image.topics[name].topic_id == topic_id, f"{name} is another topic now"
            assert len(image.topics[name].partitions) == partitions
    for topic_id, name in ledger.deleted.items():
        assert image.topic(topic_id) is None, f"{name} was deleted, and is back"


def judge_records(
    ledger: ClientObservations, last: ClientObservations, *, one_counts: bool
) -> None:
    """What is in the logs at the end, against what everybody was told on the way."""
    assert ledger.violations == []
    assert last.violations == []
    logs = {place: _in_order(records) for place, records in last.seen.items()}
    for place, records in ledger.seen.items():
        for offset, value in records.items():
            assert logs[place][offset] == value, f"{place} {offset} was read, and is gone"
    for acked in ledger.acked:
        if acked.place not in logs or (acked.acks == 1 and not one_counts):
            continue
        times = logs[acked.place].count(acked.value)
        assert times == 1, f"{acked.value[:40]!r} is there {times} times"
        if acked.offset >= 0:
            found = logs[acked.place][acked.offset]
            assert found == acked.value, f"{acked.place} {acked.offset} holds {found[:40]!r}"
    _judge_order(logs)


def _in_order(records: Mapping[int, bytes]) -> list[bytes]:
    assert list(records) == list(range(len(records))), "offsets have no holes"
    return list(records.values())


def _judge_order(logs: Mapping[Place, list[bytes]]) -> None:
    for place, values in logs.items():
        numbers: dict[bytes, list[int]] = {}
        for value in values:
            name, partition, number, _padding = value.split(b":", 3)
            assert int(partition) == place[1], f"{value[:40]!r} is in {place}"
            numbers.setdefault(name, []).append(int(number))
        for name, order in numbers.items():
            assert order == sorted(set(order)), f"{name!r} in {place}: {order}"
            if name.startswith(b"idempotent"):
                assert order == list(range(len(order))), f"{name!r} in {place}: {order}"
