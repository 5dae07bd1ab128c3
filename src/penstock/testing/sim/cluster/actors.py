"""Clients of a seed: an admin that changes topics, and readers; producers.py has those that write.

A request without an answer may have taken effect: its topic gets no further promise. Each name and
each value is used once.
"""

from typing import Any, Protocol

from penstock.controller.image import Image
from penstock.errors import (
    InvalidReplicationFactor,
    KafkaStorageError,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    TopicAlreadyExists,
)
from penstock.model import TopicPartition
from penstock.testing.sim.client import CREATE_TOPICS, DELETE_TOPICS, FETCH, INIT_PRODUCER_ID
from penstock.testing.sim.cluster.draws import REPLICAS, ClusterDraw
from penstock.testing.sim.cluster.ledger import ClusterLedger, TopicFate
from penstock.testing.sim.cluster.routing import RoutedCall, RoutedScript, RoutingClient
from penstock.testing.sim.invariants import require
from penstock.testing.sim.world import Simulation
from penstock.wire.batch import (
    LENGTH,
    LENGTH_OVERHEAD,
    batch_headers,
    read_records,
)
from penstock.wire.messages import (
    k01_fetch,
    k19_create_topics,
    k20_delete_topics,
    k21_delete_records,
    k22_init_producer_id,
    k37_create_partitions,
    k44_incremental_alter_configs,
)

DELETE_RECORDS, ALTER_CONFIGS, CREATE_PARTITIONS = 21, 44, 37
CONFIG = "max.message.bytes"
CONFIG_MIN = 1_000_000
SEGMENT_BYTES = "internal.segment.bytes"
TOPIC_RESOURCE, SET = 2, 0
TOPICS_MAX = 6
FETCH_VERSION = 13
FETCH_WAIT_MS = 100
# Errors after which nothing has changed.
WITHOUT_EFFECT = (
    InvalidReplicationFactor.code,
    KafkaStorageError.code,
    ThrottlingQuotaExceeded.code,
)


class ClusterRun(Protocol):
    """The run of a seed, as its actors see it."""

    simulation: Simulation
    draw: ClusterDraw
    ledger: ClusterLedger

    @property
    def newest_image(self) -> Image:
        """Return the image of the highest committed offset that any node has published."""
        ...

    @property
    def broker_ids(self) -> tuple[int, ...]: ...

    def next_number(self) -> int: ...
    def count(self, event: str) -> None: ...
    def committed_end(self, partition: TopicPartition) -> int:
        """Return the offset below which all records of a partition are committed."""
        ...

    def change_acknowledged(self) -> None: ...
    def taken_over(self, producer_id: int, producer_epoch: int) -> None:
        """Note that a transaction has a new owner: this identity writes no more."""
        ...


class ClusterActor(RoutingClient):
    """A client with a part in the run."""

    def __init__(self, run: ClusterRun, name: str) -> None:
        super().__init__(run.simulation, name, run.broker_ids)
        self.run = run
        self.ledger = run.ledger

    def choose_partition(self) -> TopicPartition | None:
        """Return a partition of a living topic, None without one."""
        living = self.ledger.living
        if not living:
            return None
        topic = self.chance.choice(living)
        return TopicPartition(topic.name, self.chance.randrange(topic.partitions))

    def find_leader(self, partition: TopicPartition) -> RoutedScript[int]:
        """Return the leader of a partition, or -1; ask a node if it is not known."""
        leader = self.leader_of(*partition)
        if leader < 0 or self.chance.random() < 0.05:
            yield from self.describe({partition.topic: None}, self.any_broker())
            leader = self.leader_of(*partition)
        return leader


class AdminActor(ClusterActor):
    """Creates and deletes topics, adds partitions, alters settings, asks for producer ids."""

    def script(self) -> RoutedScript[None]:
        while True:
            yield self.rest(self.run.draw.rest_ms)
            living = self.ledger.living
            dice = self.chance.random()
            if len(living) < 2 or (dice < 0.35 and len(living) < TOPICS_MAX):
                yield from self.create()
            elif dice < 0.5:
                yield from self._delete(self.chance.choice(living))
            elif dice < 0.65:
                yield from self._alter(self.chance.choice(living))
            elif dice < 0.75:
                yield from self._add_partitions(self.chance.choice(living))
            elif dice < 0.85:
                yield from self._delete_records()
            else:
                yield from self._init_producer_id()

    def create(self, node_id: int | None = None) -> RoutedScript[bool]:
        """Create a topic; return whether that was acknowledged."""
        fate = TopicFate(f"topic-{self.run.next_number()}")
        partitions = self.chance.randint(1, 3)
        topic = k19_create_topics.CreatableTopic(
            name=fate.name, num_partitions=partitions, replication_factor=REPLICAS
        )
        segment_bytes = str(self.run.draw.segment_bytes)
        topic.configs.append(
            k19_create_topics.CreatableTopicConfig(name=SEGMENT_BYTES, value=segment_bytes)
        )
        message = k19_create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=2_000)
        asked = self.any_broker() if node_id is None else node_id
        response = yield RoutedCall(asked, CREATE_TOPICS, 7, message)
        result = response.topics[0] if response is not None else None
        # A request that a node has sent again finds its own topic.
        if not self._took_effect(fate, result, also=(TopicAlreadyExists.code,)):
            return False
        assert result is not None, "an effect has an answer"
        fate.topic_id, fate.partitions = result.topic_id, partitions
        self.ledger.topics[fate.name] = fate
        known = self.run.newest_image.topics.get(fate.name)
        require(
            known is not None and known.topic_id == fate.topic_id,
            f"{fate.name} was acknowledged before its creation was committed",
        )
        self._acknowledged()
        return True

    def _took_effect(self, fate: TopicFate, result: Any, also: tuple[int, ...] = ()) -> bool:
        """Return whether a change was acknowledged. Without an answer the topic gets no further
        promise."""
        if result is None or result.error_code == RequestTimedOut.code:
            fate.is_uncertain = True
            return False
        code = result.error_code
        if code in WITHOUT_EFFECT or code in also:
            return False
        require(not code, f"{self.name}: error {code} about {fate.name}: {result.error_message}")
        return True

    def _acknowledged(self) -> None:
        self.ledger.changes += 1
        self.run.change_acknowledged()

    def _delete(self, fate: TopicFate) -> RoutedScript[None]:
        fate.is_uncertain = True
        state = k20_delete_topics.DeleteTopicState(topic_id=fate.topic_id, name=None)
        message = k20_delete_topics.DeleteTopicsRequest(topics=[state], timeout_ms=2_000)
        response = yield RoutedCall(self.any_broker(), DELETE_TOPICS, 6, message)
        if response is None or not self._took_effect(fate, response.responses[0], also=(100,)):
            return
        fate.is_deleted = True
        require(
            self.run.newest_image.topic(fate.topic_id) is None,
            f"the deletion of {fate.name} was acknowledged before it was committed",
        )
        self._acknowledged()

    def _alter(self, fate: TopicFate) -> RoutedScript[None]:
        if fate.has_asked_config:
            return  # the node may still repeat the first request
        fate.has_asked_config = True
        value = str(CONFIG_MIN + self.run.next_number())
        change = k44_incremental_alter_configs.AlterableConfig(
            name=CONFIG, config_operation=SET, value=value
        )
        resource = k44_incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=fate.name, configs=[change]
        )
        message = k44_incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
        response = yield RoutedCall(self.any_broker(), ALTER_CONFIGS, 1, message)
        if response is not None and response.responses[0].error_code == 0:
            fate.config = value
            self._acknowledged()

    def _add_partitions(self, fate: TopicFate) -> RoutedScript[None]:
        wanted = fate.partitions + 1
        topic = k37_create_partitions.CreatePartitionsTopic(
            name=fate.name, count=wanted, assignments=None
        )
        message = k37_create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=2_000)
        response = yield RoutedCall(self.any_broker(), CREATE_PARTITIONS, 3, message)
        if response is not None and response.results[0].error_code == 0:
            fate.partitions = max(fate.partitions, wanted)
            self._acknowledged()

    def _delete_records(self) -> RoutedScript[None]:
        """Delete the committed records of a partition, or some of them."""
        partition = self.choose_partition()
        if partition is None:
            return
        leader = yield from self.find_leader(partition)
        if leader < 0:
            return
        end_offset = self.run.committed_end(partition)
        offset = self.chance.choice((end_offset, self.chance.randint(0, end_offset)))
        self.ledger.trimmed[partition] = max(self.ledger.trimmed.get(partition, 0), offset)
        asked = k21_delete_records.DeleteRecordsPartition(
            partition_index=partition.partition, offset=offset
        )
        topic = k21_delete_records.DeleteRecordsTopic(name=partition.topic, partitions=[asked])
        message = k21_delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=500)
        yield RoutedCall(leader, DELETE_RECORDS, 2, message)

    def _init_producer_id(self) -> RoutedScript[None]:
        message = k22_init_producer_id.InitProducerIdRequest(transactional_id=None)
        response = yield RoutedCall(self.any_broker(), INIT_PRODUCER_ID, 4, message)
        if response is not None and not response.error_code:
            self.ledger.note_producer_id(response.producer_id, self.name)


class ReaderActor(ClusterActor):
    """Reads random partitions from where it has come to."""

    def __init__(self, run: ClusterRun, name: str) -> None:
        super().__init__(run, name)
        self.positions: dict[TopicPartition, int] = {}

    def script(self) -> RoutedScript[None]:
        while True:
            yield self.rest(self.run.draw.rest_ms)
            partition = self.choose_partition()
            if partition is not None:
                yield from self.read(partition)

    def read(self, partition: TopicPartition) -> RoutedScript[int]:
        """Read what follows; return the high watermark, or -1 after a failure."""
        leader = yield from self.find_leader(partition)
        if leader < 0:
            return -1
        trimmed = self.ledger.trimmed.get(partition, 0)
        position = self.positions[partition] = max(self.positions.get(partition, 0), trimmed)
        fate = self.ledger.topics[partition.topic]
        asked = k01_fetch.FetchPartition(
            partition=partition.partition, fetch_offset=position, partition_max_bytes=1 << 20
        )
        topic = k01_fetch.FetchTopic(topic_id=fate.topic_id, partitions=[asked])
        message = k01_fetch.FetchRequest(
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=1 << 20, topics=[topic]
        )
        response = yield RoutedCall(leader, FETCH, FETCH_VERSION, message)
        if response is None or response.error_code or not response.responses:
            self.leaders.pop(partition.topic, None)
            return -1
        data = response.responses[0].partitions[0]
        if data.error_code:
            self.leaders.pop(partition.topic, None)
            return -1
        self._take(partition, data.records or b"")
        return int(data.high_watermark)

    def _take(self, partition: TopicPartition, records: bytes) -> None:
        view = memoryview(records)
        position = self.positions.get(partition, 0)
        for start, header in batch_headers(records):
            for record in read_records(view[start : start + LENGTH_OVERHEAD + header[LENGTH]]):
                if record.offset >= position:
                    require(record.offset == position, f"{partition} has no offset {position}")
                    self.ledger.note_seen(partition, record.offset, record.value or b"")
                    position += 1
        self.positions[partition] = position
