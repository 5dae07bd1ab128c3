"""A stand-in for librdkafka's consumer and an engine over it, for what no broker does."""

from collections.abc import Collection
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError as RdkafkaError
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as RdkafkaPartition

from penstock.client.consumer.assignment.partitions import Partitions
from penstock.client.consumer.assignment.rebalance import Rebalancer
from penstock.client.consumer.assignment.resolved_config import (
    Callbacks,
    PartitionsCallback,
    resolve_config,
)
from penstock.client.consumer.engine.engine import ConsumerEngine
from penstock.client.consumer.offsets.offset_tracker import InFlight, PartitionKey
from penstock.model import TopicPartition

A: PartitionKey = ("orders", 0)
B: PartitionKey = ("orders", 1)
NO_CALLBACKS = Callbacks()


class Message:
    """As librdkafka's."""

    def __init__(self, at: PartitionKey, number: int) -> None:
        self.at, self.number = at, number

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.number

    def __len__(self) -> int:
        return 1


class Rdkafka:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[tuple[str, int, int]]]] = []
        self.positions: dict[PartitionKey, int] = {}

    def committed(self, *_: object) -> list[RdkafkaPartition]:
        raise KafkaException(RdkafkaError(RdkafkaError._TIMED_OUT))

    def position(self, places: list[RdkafkaPartition]) -> list[RdkafkaPartition]:
        known = [(each.topic, each.partition) for each in places]
        return [RdkafkaPartition(*each, self.positions.get(each, -1001)) for each in known]

    def __getattr__(self, name: str) -> Any:
        def note(*said: Any) -> list[Any]:
            places = said[0] if said else []
            listed = places if isinstance(places, list) else [places]
            self.told.append((name, [(p.topic, p.partition, p.offset) for p in listed]))
            return []

        return note


class Nobody:
    """A face without bodies behind it."""

    def is_working(self, work: InFlight[Any]) -> bool:  # noqa: ARG002
        return False

    def cancel(self, work: InFlight[Any]) -> None:
        raise AssertionError(work)

    def call(
        self, callback: PartitionsCallback, places: Collection[TopicPartition]
    ) -> "Future[None]":
        raise AssertionError((callback, places))


def engine_of(
    strategy: str, *, callbacks: Callbacks = NO_CALLBACKS, manual_finish: bool = False
) -> tuple[ConsumerEngine, Rdkafka]:
    """One that was opened, with two partitions."""
    config, _ = resolve_config(
        {"partition.assignment.strategy": strategy},
        bootstrap="127.0.0.1:1",
        group="g",
        namespace=None,
        manual_finish=manual_finish,
        callbacks=callbacks,
        hides_internal=False,
    )
    adapter, rdkafka = Nobody(), Rdkafka()
    engine = ConsumerEngine(config, adapter)
    engine.rdkafka = rdkafka  # type: ignore[assignment]
    engine.partitions = Partitions(config, engine.shared, engine.rdkafka, engine.committer)
    engine._rebalancer = Rebalancer(
        config, engine.shared, adapter, engine.partitions, engine.committer
    )
    engine.partitions.assign_partitions({A: None, B: None}, replacing=True)
    rdkafka.told.clear()
    return engine, rdkafka
