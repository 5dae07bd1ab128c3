"""Producers of a seed: plain ones with acks=all or acks=1, and idempotent ones."""

from typing import Any

from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from penstock.testing.sim.client import (
    DUPLICATE_SEQUENCE,
    INIT_PRODUCER_ID,
    OUT_OF_ORDER_SEQUENCE,
    UNKNOWN_PRODUCER,
)
from penstock.testing.sim.client import PRODUCE as PRODUCE_KEY
from penstock.testing.sim.cluster.actors import ClusterActor, ClusterRun
from penstock.testing.sim.cluster.ledger import TopicFate
from penstock.testing.sim.cluster.routing import RoutedCall, RoutedScript
from penstock.testing.sim.invariants import require
from penstock.testing.sim.script import ScriptPause
from penstock.wire.batch import Record, build_batch
from penstock.wire.messages import k00_produce, k22_init_producer_id

PRODUCE_VERSION = 13
ALL_REPLICAS, LEADER_ONLY = -1, 1  # acks
NO_SEQUENCE = -1
RETRY_MS = 30.0
VALUE_BYTES = (0, 20, 200, 5_000)


class ProducerActor(ClusterActor):
    """Writes records to random partitions, each value in one request."""

    acks = ALL_REPLICAS

    def script(self) -> RoutedScript[None]:
        while True:
            yield self.rest(self.run.draw.rest_ms)
            partition = self.choose_partition()
            if partition is not None:
                yield from self.produce(partition)

    def produce(self, partition: TopicPartition) -> RoutedScript[bool]:
        """Write some records; return whether they were acknowledged."""
        values = self.values()
        result = yield from self.send(partition, values)
        if result is None or result.error_code:
            return False
        if self.acks == ALL_REPLICAS:
            self.note_stored(partition, result.base_offset, values)
        return True

    def values(self) -> list[bytes]:
        size = self.chance.choice(VALUE_BYTES)
        count = self.chance.choice((1, 1, 3))
        return [b"%d:%s" % (self.run.next_number(), bytes(size)) for _ in range(count)]

    def note_stored(self, partition: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        for offset, value in enumerate(values, base_offset):
            self.ledger.note_acknowledged(partition, offset, value)

    def send(
        self,
        partition: TopicPartition,
        values: list[bytes],
        *,
        producer_id: int = NO_PRODUCER_ID,
        sequence: int = NO_SEQUENCE,
    ) -> RoutedScript[Any]:
        """Send one batch; return the result of its partition, None without an answer."""
        leader = yield from self.find_leader(partition)
        if leader < 0:
            return None
        topic = k00_produce.TopicProduceData(
            name=partition.topic, topic_id=self.ledger.topics[partition.topic].topic_id
        )
        now_ms = self.world.clock.wall_ms()
        records = build_batch(
            [Record(n, now_ms, None, each) for n, each in enumerate(values)],
            producer_id=producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer_id == NO_PRODUCER_ID else 0,
            base_sequence=sequence,
        )
        topic.partition_data.append(
            k00_produce.PartitionProduceData(index=partition.partition, records=records)
        )
        message = k00_produce.ProduceRequest(acks=self.acks, timeout_ms=2_000, topic_data=[topic])
        response = yield RoutedCall(leader, PRODUCE_KEY, PRODUCE_VERSION, message)
        result = response.responses[0].partition_responses[0] if response is not None else None
        if result is None or result.error_code:
            self.leaders.pop(partition.topic, None)
        return result


class LeaderProducer(ProducerActor):
    """Writes with acks=1: a record may be lost with its leader."""

    acks = LEADER_ONLY


class IdempotentProducer(ProducerActor):
    """Writes with sequence numbers, and sends each batch until an answer says that it is stored."""

    def __init__(self, run: ClusterRun, name: str) -> None:
        super().__init__(run, name)
        self._producer_id = -1
        self._sequences: dict[TopicPartition, int] = {}

    def script(self) -> RoutedScript[None]:
        while self._producer_id < 0:
            yield from self._init()
        yield from super().script()

    def _init(self) -> RoutedScript[None]:
        message = k22_init_producer_id.InitProducerIdRequest(transactional_id=None)
        response = yield RoutedCall(self.any_broker(), INIT_PRODUCER_ID, 4, message)
        if response is None or response.error_code:
            yield self.rest(RETRY_MS)
            return
        self.ledger.note_producer_id(response.producer_id, self.name)
        self._producer_id = response.producer_id

    def produce(self, partition: TopicPartition) -> RoutedScript[bool]:
        """Send a batch until it is stored, or its topic may be deleted."""
        values, fate = self.values(), self.ledger.topics[partition.topic]
        sequence = self._sequences.get(partition, 0)
        while self._is_there(fate):
            result = yield from self.send(
                partition, values, producer_id=self._producer_id, sequence=sequence
            )
            if result is not None and result.error_code in (0, DUPLICATE_SEQUENCE):
                self._sequences[partition] = sequence + len(values)
                if result.base_offset >= 0:
                    self.note_stored(partition, result.base_offset, values)
                return True
            if result is not None and result.error_code in (
                OUT_OF_ORDER_SEQUENCE,
                UNKNOWN_PRODUCER,
            ):
                require(
                    partition in self.ledger.unbound,
                    f"{partition} has forgotten the records of {self.name} before sequence "
                    f"{sequence}: error {result.error_code}",
                )
                return False
            yield ScriptPause(self.chance.uniform(0.2, 1.8) * RETRY_MS)
        return False

    def _is_there(self, fate: TopicFate) -> bool:
        return not fate.is_deleted and not fate.is_uncertain
