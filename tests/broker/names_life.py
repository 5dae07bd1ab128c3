"""A topic that is deleted and made again under its name, on directories that come and go, by a node
that dies at any step. What was acknowledged to one of them is judged by that one alone."""

import random

from moving_life import read_values
from simulated_node import PRODUCE, Bench, FakePeer, produce, replies
from troubled_disks import heal, take_away

from depth import seeds
from penstock.broker.partitions.partition import Partition
from penstock.testing.sim.world import WorldDisk
from penstock.wire.frame import request_frame
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20

CREATE_TOPICS, DELETE_TOPICS = 19, 20
ROOTS = ("one", "two")
SETTINGS = {
    "metadata.log.dir": "meta",
    "log.dirs": ",".join(ROOTS),
    "log.segment.delete.delay.ms": "1000",
    "log.durability": "fsync",  # so that a loss of power loses nothing either
}
CONFIGS = {"internal.segment.bytes": "600"}
PARTITIONS = 2
SEEDS = seeds(40, few=4)
ROUNDS = 14


class Names:
    """One node after another on the same directories."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.bench = Bench(SETTINGS, seed=seed)
        self.acknowledged: dict[tuple[bytes, int], dict[int, bytes]] = {}
        self.deleted_to: dict[tuple[bytes, int], int] = {}
        self.sent = 0
        self.away: tuple[str, ...] = ()

    @property
    def topic_id(self) -> bytes | None:
        topic = self.bench.broker.image.topics.get("t")
        return None if topic is None else topic.topic_id

    def served(self, index: int) -> Partition | None:
        topic_id = self.topic_id
        found = self.bench.broker.replicas.by_id.get(topic_id or b"", {}).get(index)
        return None if found is None or found.directory.failed else found

    # -- what happens

    def step(self, count: int) -> None:
        for _ in range(count):
            self.bench.simulation.step()

    def create(self) -> None:
        configs = [k19.CreatableTopicConfig(name=name, value=CONFIGS[name]) for name in CONFIGS]
        topic = k19.CreatableTopic(
            name="t", num_partitions=PARTITIONS, replication_factor=1, configs=configs
        )
        connection, _ = self.bench.connect()
        message = k19.CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        self.bench.receive(connection, request_frame(CREATE_TOPICS, 7, 1, "test", message))

    def delete(self) -> None:
        connection, _ = self.bench.connect()
        request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=5_000)
        self.bench.receive(connection, request_frame(DELETE_TOPICS, 5, 1, "test", request))

    def write(self, index: int, count: int) -> None:
        for _ in range(count):
            partition, topic_id = self.served(index), self.topic_id
            if partition is None or topic_id is None:
                return
            value = b"%d" % self.sent
            self.sent += 1
            connection, peer = self.bench.connect()
            frame = self.bench.frame(PRODUCE, produce("t", value, index))
            self.bench.receive(connection, frame)
            for _ in range(20):
                if not peer.sent:
                    self.bench.settle(5)
            self._listen(peer, topic_id, index, value)
            connection.closed()

    def _listen(self, peer: FakePeer, topic_id: bytes, index: int, value: bytes) -> None:
        if self.topic_id != topic_id:
            return
        for answer in replies(peer, [PRODUCE]):
            said = answer.responses[0].partition_responses[0]
            if said.error_code == 0:
                known = self.acknowledged.setdefault((topic_id, index), {})
                assert said.base_offset not in known, "an offset is given out once"
                known[said.base_offset] = value

    def delete_records(self, index: int) -> None:
        partition, topic_id = self.served(index), self.topic_id
        if partition is None or topic_id is None:
            return
        offset = self.dice.randint(partition.log.start_offset, partition.leader.high_watermark)
        partition.delete_before(offset)
        self.bench.broker.replicas.start_offsets_moved([partition.directory])
        self.deleted_to[topic_id, index] = max(offset, self.deleted_to.get((topic_id, index), 0))

    def move(self, index: int) -> None:
        partition = self.served(index)
        target = self.bench.broker.replicas.directory_at(self.dice.choice(ROOTS))
        if partition is not None and target is not None and not target.failed:
            self.bench.turn(lambda: self.bench.broker.moves.ask(partition, target))

    def end(self, *, power: bool, away: tuple[str, ...] = ()) -> None:
        """The node dies, and the next one finds these directories away."""
        self.bench.world.kill()
        world = self.bench.world
        self.start(world.disks_after_power_loss() if power else world.disks_after_kill(), away)

    def stop(self, away: tuple[str, ...] = ()) -> None:
        self.start(self.bench.stop(), away)

    def start(self, disks: dict[str, WorldDisk], away: tuple[str, ...] = ()) -> None:
        for root, disk in disks.items():
            heal(disk)
            if root in away:
                take_away(disk)
        self.away = away
        self.bench = Bench(SETTINGS, disks=disks, seed=self.dice.randrange(1 << 30))

    # -- what must hold

    def check(self) -> None:
        """Whatever is served holds all that was acknowledged and not deleted."""
        topic_id = self.topic_id
        if topic_id is None:
            return
        for index in range(PARTITIONS):
            partition = self.served(index)
            if partition is None:
                making = self.bench.broker.replicas._creation
                assert self.away or making.busy or making._shelved, "nothing is away"
                continue
            known = self.acknowledged.get((topic_id, index), {})
            deleted_to = self.deleted_to.get((topic_id, index), 0)
            assert partition.log.start_offset <= deleted_to, "nobody deleted that"
            wanted = [value for offset, value in known.items() if offset >= deleted_to]
            found = set(read_values(partition))
            assert [value for value in wanted if value not in found] == []
            assert not partition.log.damaged

    def settle(self) -> None:
        """With every directory there, everything can be used."""
        self.bench.settle(3_000)
        if not self.away:
            assert self.bench.broker.replicas.kept_offline_count == 0
        self.check()


def with_checkpoints(seed: int) -> Names:
    """Return a life whose checkpoints hold six durable records and four deleted ones."""
    life = Names(seed)
    life.create()
    life.bench.settle(1_000)
    for index in range(PARTITIONS):
        life.write(index, 6)
        partition = life.served(index)
        assert partition is not None
        partition.delete_before(4)
        life.deleted_to[partition.topic_id, index] = 4
    life.bench.broker.replicas.start_offsets_moved(life.bench.broker.replicas.directories)
    life.bench.settle(6_000)
    return life


def one_act(life: Names, dice: random.Random) -> None:
    """Write, delete records, delete or create the topic, move a partition, or let time pass."""
    match dice.randrange(6):
        case 0:
            life.write(dice.randrange(PARTITIONS), dice.randrange(1, 8))
        case 1:
            life.delete_records(dice.randrange(PARTITIONS))
        case 2 if life.topic_id is None:
            life.create()
        case 2:
            life.delete()
        case 3 if life.topic_id is not None:
            life.delete()
            life.create()
        case 4:
            life.move(dice.randrange(PARTITIONS))
        case _:
            life.bench.settle(dice.choice((1, 20, 600, 6_000)))
