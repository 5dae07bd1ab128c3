"""Producer ids for InitProducerId, drawn from blocks that the controller hands out."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.errors import KafkaError, from_code
from penstock.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from penstock.broker.transactions.broker_view import TransactionsBroker

Drawn = Callable[[int | KafkaError], None]


class ProducerIdSource:
    """Unused ids. After a crash, the rest of a block is not used."""

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
