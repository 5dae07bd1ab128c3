"""A node in a simulated world, and peers whose every byte the test decides."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.network.connection import BrokerConnection
from penstock.broker.network.listener import BrokerListener
from penstock.config.broker import BrokerConfig
from penstock.node import PenstockNode
from penstock.testing.sim.world import Simulation, SimWorld, WorldDisk
from penstock.wire.apis import response_class
from penstock.wire.batch import Record, build_batch
from penstock.wire.codec import read
from penstock.wire.frame import parse_response_header, request_frame
from penstock.wire.messages import (
    k00_produce,
    k01_fetch,
    k03_metadata,
    k18_api_versions,
    k19_create_topics,
)
from penstock.world import FileRange, Part, Receiver

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 2, 3, 18, 19
VERSIONS = {
    PRODUCE: 11,
    FETCH: 12,
    LIST_OFFSETS: 10,
    METADATA: 12,
    API_VERSIONS: 3,
    CREATE_TOPICS: 7,
}
METADATA_LOG = f"{METADATA_DIRECTORY}/{0:020d}.log"
_SIZE = Struct(">i")


class FakePeer:
    """The other end of a connection; it takes what is sent only when told to."""

    def __init__(
        self, address: tuple[str, int] = ("10.0.0.1", 5000), *, reads: bool = True
    ) -> None:
        self.address = address
        self.identity: bytes | None = None
        self.reads = reads
        self.sent = bytearray()
        self.unsent_bytes = 0
        self.paused = False
        self.closed = self.finished = self.ended = False

    def has_ended(self) -> bool:
        return self.ended

    def send(self, parts: Sequence[Part]) -> None:
        for part in parts:
            data = (
                part.file.read_now(part.position, part.size)
                if isinstance(part, FileRange)
                else part
            )
            self.sent += data
            if not self.reads:
                self.unsent_bytes += len(data)

    def hand_over(self, receiver: Receiver) -> None:
        raise AssertionError(f"no login hands this peer to {receiver}")

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def finish(self) -> None:
        self.finished = True

    def close(self) -> None:
        self.closed = True


def _written(disks: Mapping[str, WorldDisk]) -> int:
    """Return the bytes of the metadata log, different in each life: so are the ids that the node
    draws then."""
    return sum(each.size(METADATA_LOG) for each in disks.values() if each.exists(METADATA_LOG))


class Bench:
    """A serving node; `turn` hands bytes to connections and ends the turn."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        disks: dict[str, WorldDisk] | None = None,
        seed: int = 7,
    ) -> None:
        """`disks` are those of a node that has ended."""
        self.simulation = Simulation(seed + _written(disks or {}))
        self.world = SimWorld(self.simulation, disks=disks)
        self.stopped = False
        config = {"listeners": "PLAINTEXT://node:9092", "log.dirs": "data", **(settings or {})}
        self.node = PenstockNode(self.world, BrokerConfig.of(config))
        ready: list[bool] = []
        self.node.start(lambda: ready.append(True), self._has_stopped)
        self.simulation.run_until(lambda: bool(ready))
        self._correlation_id = 0

    def _has_stopped(self) -> None:
        self.stopped = True

    def stop(self) -> dict[str, WorldDisk]:
        """A clean stop; the disks for the next node."""
        self.node.stop()
        self.simulation.run_until(lambda: self.stopped)
        self.world.kill()
        return self.world.disks_after_kill()

    @property
    def broker(self) -> Broker:
        assert self.node.broker is not None, "the bench's node serves"
        return self.node.broker

    @property
    def listener(self) -> BrokerListener:
        return self.broker.listeners[0]

    def connect(
        self, peer: FakePeer | None = None, listener: BrokerListener | None = None
    ) -> tuple[BrokerConnection, FakePeer]:
        peer = peer or FakePeer()
        connection = (listener or self.listener).accept(peer)
        assert isinstance(connection, BrokerConnection), "the listener asks for no login"
        return connection, peer

    def turn(self, *calls: Callable[[], Any]) -> None:
        for call in calls:
            call()
        self.world.end_turn()

    def receive(self, connection: BrokerConnection, data: bytes) -> bytes:
        """As the network would hand it over: into the room there is, the rest as a view. What a
        connection that was paused did not take comes back."""
        left = memoryview(data)
        while left:
            room = connection.room
            if room is None:
                connection.received(left)
                break
            if not len(room):
                self.world.end_turn()
                return bytes(left)
            size = min(len(room), len(left))
            room[:size] = left[:size]
            connection.filled(size)
            left = left[size:]
            if getattr(connection.peer, "paused", False):
                self.world.end_turn()
                return bytes(left)
        self.world.end_turn()
        return b""

    def settle(self, duration_ms: float = 100.0) -> None:
        self.simulation.run_for(duration_ms)

    def frame(self, key: int, message: object) -> bytes:
        self._correlation_id += 1
        return request_frame(key, VERSIONS[key], self._correlation_id, "test", message)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        named: bool = True,
    ) -> None:
        """`named` makes partition.metadata durable, as the first record does: no answer waits for
        that any more."""
        connection, peer = self.connect()
        topic = k19_create_topics.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                k19_create_topics.CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        message = k19_create_topics.CreateTopicsRequest(topics=[topic])
        self.receive(connection, self.frame(CREATE_TOPICS, message))
        self.simulation.run_until(lambda: bool(peer.sent))
        (answer,) = replies(peer, [CREATE_TOPICS])
        assert answer.topics[0].error_code == 0, answer.topics[0].error_message
        connection.closed()
        for partition in self.broker.replicas.by_name.get(name, {}).values() if named else ():
            partition.directory.disk.open(f"{partition}/partition.metadata").sync_now()
            partition.log.metadata_unsynced = False


def api_versions() -> k18_api_versions.ApiVersionsRequest:
    return k18_api_versions.ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    )


def metadata(*topics: str) -> k03_metadata.MetadataRequest:
    wanted = [k03_metadata.MetadataRequestTopic(name=name) for name in topics]
    return k03_metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=True)


def produce(
    topic: str, value: bytes, partition: int = 0, *, sequence: int | None = None
) -> k00_produce.ProduceRequest:
    """With a `sequence` it comes from idempotent producer 7."""
    record = Record(0, 1_750_000_000_000, None, value)
    batch = build_batch([record])
    if sequence is not None:
        batch = build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence)
    return produce_batch(topic, batch, partition)


def produce_batch(
    topic: str, batch: bytes, partition: int = 0, *, acks: int = -1
) -> k00_produce.ProduceRequest:
    data = k00_produce.PartitionProduceData(index=partition, records=batch)
    return k00_produce.ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[k00_produce.TopicProduceData(name=topic, partition_data=[data])],
    )


def fetch(
    topic: str,
    partitions: Sequence[int],
    *,
    session: tuple[int, int] = (0, -1),
    wait_ms: int = 0,
    offset: int = 0,
) -> k01_fetch.FetchRequest:
    wanted = [
        k01_fetch.FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=1 << 20)
        for each in partitions
    ]
    topics = [k01_fetch.FetchTopic(topic=topic, partitions=wanted)] if wanted else []
    return k01_fetch.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
    )


def replies(peer: FakePeer, keys: Sequence[int]) -> list[Any]:
    """What the peer was sent, read as answers to requests of these kinds; takes it away."""
    found: list[Any] = []
    waiting = deque(keys)
    while len(peer.sent) >= 4:
        size = _SIZE.unpack_from(peer.sent)[0]
        frame = bytes(peer.sent[4 : 4 + size])
        del peer.sent[: 4 + size]
        key = waiting.popleft()
        _, position = parse_response_header(key, VERSIONS[key], frame)
        found.append(read(response_class(key), VERSIONS[key], frame, position))
    return found


def correlation_ids(peer: FakePeer) -> list[int]:
    """In the order in which the answers left."""
    found, position = [], 0
    while position < len(peer.sent):
        size, correlation_id = Struct(">ii").unpack_from(peer.sent, position)
        found.append(correlation_id)
        position += 4 + size
    return found
