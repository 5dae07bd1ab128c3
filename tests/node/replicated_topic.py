"""A replicated topic of simulated nodes: writes, reads, and what each replica has of them."""

from collections.abc import Iterator
from typing import Any

from penstock.broker.partitions.partition import Partition
from penstock.model import TopicPartition
from penstock.testing.sim.client import FETCH, PRODUCE
from penstock.testing.sim.cluster import SimCluster
from penstock.testing.sim.cluster.routing import RoutedCall, RoutedScript, RoutingClient
from penstock.wire.batch import (
    LENGTH,
    LENGTH_OVERHEAD,
    Record,
    batch_headers,
    build_batch,
    read_records,
)
from penstock.wire.messages import k00_produce as k00
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k19_create_topics as k19

CREATE_TOPICS_VERSION, PRODUCE_VERSION, FETCH_VERSION = 7, 13, 13
ALL_BYTES = 1 << 20
LIMIT_MS = 60_000.0
WRITTEN_MS = 1_700_000_000_000

REPLICATED = {
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.backoff.ms": "50",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "controller.quorum.election.timeout.ms": "200",
    "controller.quorum.fetch.timeout.ms": "400",
}


class OneCall(RoutingClient):
    """A client with one request."""

    def __init__(self, cluster: SimCluster, call: RoutedCall) -> None:
        super().__init__(
            cluster.simulation, f"client-{cluster.simulation.turns}", tuple(cluster.nodes)
        )
        self._call_to_make = call
        self.response: Any = None

    def script(self) -> RoutedScript[None]:
        self.response = yield self._call_to_make


def call(cluster: SimCluster, node_id: int, key: int, version: int, message: Any) -> Any:
    """Return the response of a node; None if it gave none."""
    client = OneCall(cluster, RoutedCall(node_id, key, version, message))
    client.start()
    cluster.simulation.run_until(lambda: client.is_over, limit_ms=LIMIT_MS)
    return client.response


class ReplicatedTopic:
    """A topic with one partition."""

    def __init__(
        self, cluster: SimCluster, name: str = "t", *, replicas: int = 3, **configs: str
    ) -> None:
        self.cluster = cluster
        self.partition = TopicPartition(name, 0)
        topic = k19.CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)
        topic.configs = [
            k19.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ]
        request = k19.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer = cluster.ask(1, request, CREATE_TOPICS_VERSION)
        assert answer.topics[0].error_code == 0, answer
        self.topic_id = answer.topics[0].topic_id
        self.run_until(lambda: len(list(self.replicas())) == replicas)

    # -- state

    @property
    def state(self) -> Any:
        """Return the partition in the newest image of a running node."""
        images = [node.image for node in self.cluster.running]
        newest = max(images, key=lambda image: image.offset)
        return newest.topics[self.partition.topic].partitions[0]

    @property
    def leader(self) -> int:
        leader: int = self.state.leader
        return leader

    def replica(self, node_id: int) -> Partition:
        return self.cluster.nodes[node_id].broker.replicas.by_name[self.partition.topic][0]

    def replicas(self) -> Iterator[Partition]:
        for node in self.cluster.running:
            hosted = node.broker.replicas.by_name.get(self.partition.topic, {})
            if 0 in hosted:
                yield hosted[0]

    def run_until(self, condition: Any, limit_ms: float = LIMIT_MS) -> None:
        self.cluster.simulation.run_until(condition, limit_ms=limit_ms)

    def run_until_in_sync(self, count: int = 3) -> None:
        self.run_until(lambda: self.leader > 0 and len(self.state.isr) == count)

    def run_until_equal(self) -> None:
        """Let time pass until all running replicas have the same end and high watermark."""
        self.run_until(
            lambda: (
                len({(each.log.end_offset, each.leader.high_watermark) for each in self.replicas()})
                == 1
            )
        )

    # -- requests

    def produce(self, *values: bytes, acks: int = -1, node_id: int | None = None) -> int:
        """Write values in one batch; return the error code, -1 without an answer."""
        records = build_batch(
            [Record(n, 1_700_000_000_000, None, value) for n, value in enumerate(values)]
        )
        data = k00.PartitionProduceData(index=0, records=records)
        topic = k00.TopicProduceData(topic_id=self.topic_id, partition_data=[data])
        message = k00.ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[topic])
        asked = self.leader if node_id is None else node_id
        response = call(self.cluster, asked, PRODUCE, PRODUCE_VERSION, message)
        if response is None:
            return -1
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    def fetch(self, offset: int = 0, node_id: int | None = None) -> Any:
        """Return the answer about the partition to a consumer."""
        wanted = k01.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=ALL_BYTES)
        topic = k01.FetchTopic(topic_id=self.topic_id, partitions=[wanted])
        message = k01.FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=ALL_BYTES, topics=[topic])
        asked = self.leader if node_id is None else node_id
        response = call(self.cluster, asked, FETCH, FETCH_VERSION, message)
        return response.responses[0].partitions[0]

    def values(self, node_id: int | None = None) -> list[bytes]:
        """Return all committed values."""
        return values_in(self.fetch(node_id=node_id).records or b"")


def values_in(records: bytes) -> list[bytes]:
    view = memoryview(records)
    return [
        record.value or b""
        for start, header in batch_headers(records)
        for record in read_records(view[start : start + LENGTH_OVERHEAD + header[LENGTH]])
    ]


def stored_values(partition: Partition) -> list[bytes]:
    """Return all values in the log of a replica."""
    log = partition.log
    found = log.read(log.start_offset, ALL_BYTES, upper_offset=log.end_offset, min_one_batch=True)
    return [] if found.file is None else values_in(found.file.read(found.position, found.size))
