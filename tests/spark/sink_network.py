"""The way of one process to the cluster: requests and answers are lost, late and doubled.

`ModelCluster` is what the sink's driver asks and what its tasks write with. Before and after every
request others may act, and the process itself may be killed: `world` decides.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sink_broker import Broker

from penstock.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
)
from penstock.model import TopicPartition
from penstock.spark.sink.cluster import End, Ended, Gone, OpenSinkTransaction
from penstock.spark.sink.decisions import (
    TOPIC,
    Decision,
    Driver,
    SinkProducer,
    decode,
    encode,
    partition_of,
)
from penstock.spark.sink.identity import belongs_to

R = TypeVar("R")

GONE = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState, InvalidProducerIdMapping)
ATTEMPTS_MAX = 200
DRIVER_TIMEOUT_MS = 10_000


class Killed(BaseException):
    """The process is no more."""


class Unreachable(Exception):
    """No answer, however often it was asked."""


class Unanswered(Exception):
    """No answer to a question that must not be asked twice."""


class Surroundings(Protocol):
    """What happens to a process around each of its requests."""

    broker: Broker

    def before_request(self, process: str) -> None:
        """Others act; may raise Killed."""
        ...

    def after_request(self, process: str) -> None:
        """The request has had its effect, the answer has not arrived; may raise Killed."""
        ...

    def loses_request(self) -> bool: ...

    def loses_answer(self) -> bool: ...

    def comes_late(self) -> bool: ...

    def deliver_later(self, request: Callable[[], object]) -> None: ...


class ModelCluster:
    def __init__(self, world: Surroundings, process: str) -> None:
        self._world = world
        self._broker = world.broker
        self._process = process

    def _request(self, request: Callable[[], R], *, once: bool = False) -> R:
        """What is not answered is sent again, and the first may still arrive after that."""
        world = self._world
        for _ in range(ATTEMPTS_MAX):
            try:
                world.before_request(self._process)
            except Killed:
                self._perhaps_later(request)
                raise
            if world.loses_request():
                self._perhaps_later(request)
                if once:
                    raise Unanswered
                continue
            try:
                answer = request()
            except ConcurrentTransactions:
                continue
            except KafkaError:
                world.after_request(self._process)
                raise
            world.after_request(self._process)
            if not world.loses_answer():
                return answer
            if once:
                raise Unanswered
        raise Unreachable

    def _perhaps_later(self, request: Callable[[], object]) -> None:
        if self._world.comes_late():
            self._world.deliver_later(request)

    # ---- as SinkCluster

    def take_over(self, transactional_id: str) -> SinkProducer:
        return self.init(transactional_id, DRIVER_TIMEOUT_MS)

    def init(
        self, transactional_id: str, timeout_ms: int | None, *, once: bool = False
    ) -> SinkProducer:
        broker = self._broker
        pair = self._request(lambda: broker.init(transactional_id, timeout_ms), once=once)
        return SinkProducer(*pair, broker.end_version)

    def last_decision(self, sink_id: str) -> Decision | None:
        place = TopicPartition(TOPIC, partition_of(sink_id))
        values = self._request(lambda: self._broker.committed(place))
        decisions = [decode(*value) for value in values if value[0] == sink_id]  # type: ignore[index, misc]
        return decisions[-1] if decisions else None

    def append_decision(
        self, transactional_id: str, driver: Driver, decision: Decision
    ) -> Gone | None:
        place = TopicPartition(TOPIC, partition_of(decision.sink_id))
        value = decision.sink_id, encode(decision)
        try:
            self.produce(transactional_id, driver.producer, place, value, driver.sequence)
        except GONE as error:
            return Gone(error.kafka_name())
        return None

    def end(self, ends: Sequence[End]) -> tuple[Ended | Gone, ...]:
        return tuple(self._end(each) for each in ends)

    def _end(self, end: End) -> Ended | Gone:
        producer_id, epoch, version = end.producer
        try:
            pair = self._request(
                lambda: self._broker.end(
                    end.transactional_id, producer_id, epoch, commit=end.commit, version=version
                )
            )
        except GONE as error:
            return Gone(error.kafka_name())
        return Ended(SinkProducer(*pair, version))

    def open_transactions(self, sink_id: str) -> tuple[OpenSinkTransaction, ...]:
        def ask() -> tuple[OpenSinkTransaction, ...]:
            return tuple(
                OpenSinkTransaction(
                    name,
                    SinkProducer(each.producer_id, each.epoch, self._broker.end_version),
                    each.started_ms,
                )
                for name, each in self._broker.open()
                if belongs_to(sink_id, name)
            )

        return self._request(ask)

    # ---- as a producer

    def produce(
        self,
        transactional_id: str,
        producer: SinkProducer,
        place: TopicPartition,
        value: object,
        sequence: int,
    ) -> None:
        broker = self._broker
        producer_id, epoch, _ = producer
        if not producer.transactions_v2:
            self._request(lambda: broker.add(transactional_id, producer_id, epoch, place))
        self._request(
            lambda: broker.produce(
                transactional_id,
                producer_id,
                epoch,
                sequence,
                place,
                value,
                transactions_v2=producer.transactions_v2,
            )
        )

    def append_plain(self, place: TopicPartition, value: object) -> None:
        self._request(lambda: self._broker.append_plain(place, value))
