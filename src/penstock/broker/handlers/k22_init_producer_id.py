"""InitProducerId, v0-v6: an id for an idempotent producer.  v3: a producer may keep its id.

v6 carries the fields of two-phase commit. Transactional ids are refused: no transactions yet.
"""

from typing import TYPE_CHECKING

from penstock.broker.request import Request
from penstock.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError
from penstock.wire.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

NO_PRODUCER = -1


def handle(
    broker: "Broker", request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    if message.transactional_id is not None:
        code = InvalidRequest.code if not message.transactional_id else CoordinatorNotAvailable.code
        return InitProducerIdResponse(error_code=code, producer_epoch=-1)
    if (message.producer_id == NO_PRODUCER) != (message.producer_epoch == NO_PRODUCER):
        return InitProducerIdResponse(error_code=InvalidRequest.code, producer_epoch=-1)

    def drawn(result: int | KafkaError) -> None:
        if isinstance(result, KafkaError):
            request.reply(InitProducerIdResponse(error_code=result.code, producer_epoch=-1))
        else:
            request.reply(InitProducerIdResponse(producer_id=result, producer_epoch=0))

    broker.producer_ids.draw(drawn)
    return None
