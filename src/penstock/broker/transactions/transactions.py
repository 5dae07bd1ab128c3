"""Requests to the coordinator of a transactional id, and producer ids for those that need one."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import to_client_error
from penstock.coordinator.transactions.events import EndTransaction, InitProducer, NeedsProducerId
from penstock.errors import (
    InvalidProducerEpoch,
    InvalidRequest,
    KafkaError,
    ProducerFenced,
    from_code,
)
from penstock.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.transactions.broker_view import TransactionsBroker

Drawn = Callable[[int | KafkaError], None]


def ask(
    broker: "TransactionsBroker", transactional_id: str, event: Any, done: Callable[[Any], None]
) -> None:
    """Submit an event; call `done` once, with the coordinator's answer or a KafkaError."""

    def answered(result: Any) -> None:
        done(to_client_error(result) if isinstance(result, KafkaError) else result)

    if not transactional_id:
        done(InvalidRequest("a transactional id is not empty"))
        return
    try:
        runtime = broker.coordinators.transaction_runtime(transactional_id)
    except KafkaError as error:
        done(error)
        return
    runtime.submit(event, answered)


def ask_with_ids(
    broker: "TransactionsBroker", event: InitProducer | EndTransaction, done: Callable[[Any], None]
) -> None:
    """Do the same for an event that may need an unused producer id."""

    def answered(result: Any) -> None:
        if isinstance(result, NeedsProducerId):
            broker.producer_ids.draw(drawn)
        else:
            done(result)

    def drawn(result: int | KafkaError) -> None:
        if isinstance(result, KafkaError):
            done(result)
        else:
            ask(broker, event.transactional_id, replace(event, new_producer_id=result), done)

    ask(broker, event.transactional_id, event, answered)


def error_code(result: Any, version: int, fenced_from: int) -> int:
    """Return the error code of an answer, or 0. Older clients do not know PRODUCER_FENCED."""
    if not isinstance(result, KafkaError):
        return 0
    if isinstance(result, ProducerFenced) and version < fenced_from:
        return InvalidProducerEpoch.code
    return result.code


class ProducerIdSource:
    """Unused ids, from blocks of the controller. After a crash, the rest of a block is not used."""

    def __init__(self, broker: "TransactionsBroker") -> None:
        self._broker = broker
        self._next = 0
        self._end = 0
        self._waiting: deque[Drawn] = deque()
        self._asking = False

    def draw(self, done: Drawn) -> None:
        self._waiting.append(done)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            producer_id = self._next
            self._next += 1
            self._waiting.popleft()(producer_id)
        if self._waiting and not self._asking:
            self._asking = True
            broker = self._broker
            registered = broker.image.brokers.get(broker.node_id)
            epoch = registered.epoch if registered else -1
            request = AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=epoch)
            broker.metadata.submit(request, 0, self._allocated)

    def _allocated(self, result: AllocateProducerIdsResponse | KafkaError) -> None:
        self._asking = False
        if isinstance(result, AllocateProducerIdsResponse) and result.error_code:
            result = from_code(result.error_code)
        if isinstance(result, KafkaError):
            waiting, self._waiting = self._waiting, deque()
            for done in waiting:
                done(result)
            return
        self._next = result.producer_id_start
        self._end = result.producer_id_start + result.producer_id_len
        self._serve()
