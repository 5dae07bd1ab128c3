"""AddOffsetsToTxn, v0-v4: a transaction is about to commit offsets of a group.

Adds the partition of __consumer_offsets that belongs to the group.  v2: PRODUCER_FENCED.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.transactions.transactions import ask, error_code
from penstock.coordinator.transactions.events import AddPartitions
from penstock.errors import (
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    KafkaError,
    TransactionalIdAuthorizationFailed,
)
from penstock.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from penstock.security.permissions import READ_GROUP, WRITE_TRANSACTIONAL_ID
from penstock.wire.messages.k25_add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FENCED_FROM = 2


def handle(
    broker: "Broker", request: ClientRequest, message: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | None:
    if not broker.access.allows(request, WRITE_TRANSACTIONAL_ID, message.transactional_id):
        return AddOffsetsToTxnResponse(error_code=TransactionalIdAuthorizationFailed.code)
    if not broker.access.allows(request, READ_GROUP, message.group_id):
        return AddOffsetsToTxnResponse(error_code=GroupAuthorizationFailed.code)

    def answered(result: Any) -> None:
        code = error_code(result, request.api_version, FENCED_FROM)
        request.reply(AddOffsetsToTxnResponse(error_code=code))

    def made(failure: KafkaError | None) -> None:
        index = broker.coordinators.partition_of(CONSUMER_OFFSETS_TOPIC, message.group_id)
        if failure is not None or index is None:
            answered(CoordinatorNotAvailable(f"{CONSUMER_OFFSETS_TOPIC} cannot be made"))
            return
        event = AddPartitions(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            (TopicPartition(CONSUMER_OFFSETS_TOPIC, index),),
        )
        ask(broker, message.transactional_id, event, answered)

    broker.coordinators.when_created(CONSUMER_OFFSETS_TOPIC, made)
    return None
