"""AllocateProducerIds: a block of ids for one broker, never given twice."""

from penstock.controller.brokers import check_broker_epoch
from penstock.controller.image import Image
from penstock.effects import Outcome
from penstock.errors import UnknownServerError
from penstock.wire.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.records.metadata import ProducerIdsRecord

PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1


def allocate(image: Image, request: AllocateProducerIdsRequest) -> Outcome:
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    first = image.producer_ids.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise UnknownServerError("Every producer id has been given out; no more are left.")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    reply = AllocateProducerIdsResponse(
        producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE
    )
    return Outcome([record], reply)
