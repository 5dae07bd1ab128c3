"""One node after another on the same two directories, and a partition that moves between them."""

from collections.abc import Iterator

from simulated_node import PRODUCE, Bench, FakePeer, produce, replies
from troubled_disks import heal, take_away

from penstock.broker.handlers import k34_alter_replica_log_dirs as alter
from penstock.broker.handlers import k35_describe_log_dirs as describe
from penstock.broker.partitions.partition import Partition
from penstock.broker.request import ClientRequest
from penstock.testing.sim.world import WorldDisk
from penstock.wire.batch import BASE_OFFSET, LENGTH, LENGTH_OVERHEAD, batch_headers, read_records
from penstock.wire.codec import run_through
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k34_alter_replica_log_dirs as k34
from penstock.wire.messages import k35_describe_log_dirs as k35

SETTINGS = {"log.dirs": "one,two", "log.segment.delete.delay.ms": "1000"}
SEGMENTS = {"internal.segment.bytes": "600"}
NO_REQUEST: ClientRequest = None  # type: ignore[assignment]  # these handlers do not look at it


class Life:
    """One node after another on the same two directories, and what was acknowledged."""

    def __init__(self, seed: int = 7, settings: dict[str, str] | None = None) -> None:
        self.settings = SETTINGS | {"log.durability": "fsync"} | (settings or {})
        self.bench = Bench(self.settings, seed=seed)
        self.bench.create_topic("t", configs=SEGMENTS)
        self.acknowledged: list[bytes] = []
        self.unanswered: list[tuple[bytes, FakePeer]] = []
        self.sent = 0

    @property
    def partition(self) -> Partition:
        return self.bench.broker.replicas.by_name["t"][0]

    @property
    def place(self) -> str:
        return self.partition.directory.disk.root

    @property
    def elsewhere(self) -> str:
        return next(root for root in ("one", "two") if root != self.place)

    def ask(self, path: str, topic: str = "t", index: int = 0) -> int:
        wanted = k34.AlterReplicaLogDirTopic(name=topic, partitions=[index])
        message = k34.AlterReplicaLogDirsRequest(
            dirs=[k34.AlterReplicaLogDir(path=path, topics=[wanted])]
        )
        answer = alter.handle(self.bench.broker, NO_REQUEST, message)
        return answer.results[0].partitions[0].error_code

    def described(self) -> dict[str, list[k35.DescribeLogDirsPartition]]:
        message = k35.DescribeLogDirsRequest(topics=None)
        answer = run_through(describe.handle(self.bench.broker, NO_REQUEST, message))
        return {
            each.log_dir: [found for topic in each.topics for found in topic.partitions]
            for each in answer.results
        }

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            value = b"%d" % self.sent
            self.sent += 1
            connection, peer = self.bench.connect()
            self.unanswered.append((value, peer))
            self.bench.receive(connection, self.bench.frame(PRODUCE, produce("t", value)))
            self.bench.settle(3)
            self.listen()

    def delete(self) -> None:
        request = k20.DeleteTopicsRequest(topic_names=["t"], timeout_ms=30_000)
        submit = self.bench.broker.metadata.submit
        self.bench.turn(lambda: submit(request, 5, lambda _answer: None))

    def listen(self) -> None:
        """Take the answers that have come."""
        for value, peer in list(self.unanswered):
            for answer in replies(peer, [PRODUCE]):
                self.unanswered.remove((value, peer))
                if answer.responses[0].partition_responses[0].error_code == 0:
                    self.acknowledged.append(value)
        self.acknowledged.sort(key=int)

    def quiet(self) -> None:
        """Until everybody has an answer."""

        def answered() -> bool:
            self.listen()
            return not self.unanswered

        self.bench.simulation.run_until(answered)

    def arrive(self, where: str) -> None:
        self.bench.simulation.run_until(lambda: self.place == where)
        self.bench.settle(50)

    def restart(self, disks: dict[str, WorldDisk]) -> None:
        self.listen()
        self.unanswered.clear()
        self.bench = Bench(self.settings, disks=disks)

    def die(self, *, power: bool) -> None:
        self.bench.world.kill()
        world = self.bench.world
        self.restart(world.disks_after_power_loss() if power else world.disks_after_kill())

    def values(self) -> list[bytes]:
        self.quiet()
        return list(read_values(self.partition))


def read_values(partition: Partition) -> Iterator[bytes]:
    log = partition.log
    offset = log.start_offset
    while offset < log.end_offset:
        found = log.read(offset, 1 << 20, upper_offset=log.end_offset, min_one_batch=True)
        assert found.file is not None
        data = found.file.read_now(found.position, found.size)
        for position, header in batch_headers(memoryview(data)):
            end = position + header[LENGTH] + LENGTH_OVERHEAD
            for record in read_records(data[position:end]):
                assert record.value is not None
                yield record.value
                offset = record.offset + 1
            assert header[BASE_OFFSET] < offset


def names(life: Life) -> dict[str, list[str]]:
    """The directories of the partition, and what is left of others."""
    return {
        root: [name for name in disk.list() if name.startswith("t-")]
        for root, disk in life.bench.world.disks.items()
    }


def served(life: Life) -> bool:
    """Return whether the partition is online."""
    partition = life.bench.broker.replicas.by_name.get("t", {}).get(0)
    return partition is not None and not partition.directory.failed


def check(life: Life, what: object) -> None:
    """Check that the partition serves every acknowledged record, in order."""
    found = life.values()
    known = set(life.acknowledged)
    assert [value for value in found if value in known] == life.acknowledged, what
    assert found == sorted(found, key=int), what


def start(life: Life, *, away: str | None, power: bool) -> None:
    """Kill the node, and start the next one with one disk away."""
    life.bench.world.kill()
    world = life.bench.world
    disks = world.disks_after_power_loss() if power else world.disks_after_kill()
    for root, disk in disks.items():
        heal(disk)
        if root == away:
            take_away(disk)
    life.restart(disks)


def arrived(life: Life, target: str) -> None:
    """Run until the future replica has taken over, and no further."""
    life.bench.simulation.run_until(lambda: life.place == target)


def directories(life: Life, root: str) -> list[str]:
    """Return the directories of the partition in one log directory."""
    return names(life)[root]
