"""InitProducerId, v0-v6: an id and an epoch for a producer.  v3: a producer may keep its id.

With a transactional id its coordinator answers, and an open transaction is aborted first.
v4: PRODUCER_FENCED.  v6: two-phase commit (KIP-939): no time limit, and a transaction that was
left open can be kept, to be ended by its new owner.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.transactions.transactions import ask_with_ids, error_code
from penstock.coordinator.transactions.events import InitProducer, ProducerIdAndEpoch
from penstock.errors import (
    ClusterAuthorizationFailed,
    InvalidRequest,
    KafkaError,
    TransactionalIdAuthorizationFailed,
)
from penstock.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.security.permissions import (
    IDEMPOTENT_WRITE,
    TWO_PHASE_COMMIT,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
)
from penstock.wire.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FENCED_FROM = 4


def handle(
    broker: "Broker", request: ClientRequest, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    denial = _denial(broker, request, message)
    if denial is not None:
        return _rejected(denial.code)
    if (message.producer_id == NO_PRODUCER_ID) != (message.producer_epoch == NO_PRODUCER_EPOCH):
        return _rejected(InvalidRequest.code)
    version = request.api_version
    if message.transactional_id is None:

        def drawn(result: int | KafkaError) -> None:
            request.reply(_response(_idempotent(result), version))

        broker.producer_ids.draw(drawn)
        return None
    event = InitProducer(
        message.transactional_id,
        message.transaction_timeout_ms,
        message.producer_id,
        message.producer_epoch,
        message.enable_2pc,
        message.keep_prepared_txn,
    )

    def answered(result: Any) -> None:
        if isinstance(result, ProducerIdAndEpoch) and result.ongoing_producer_id != NO_PRODUCER_ID:
            # The former owner must have stopped before the new one knows that it owns.
            take_overs = broker.coordinators.markers.take_overs
            take_overs.when_over(
                result.ongoing_producer_id,
                lambda error: request.reply(_response(error or result, version)),
            )
        else:
            request.reply(_response(result, version))

    ask_with_ids(broker, event, answered)
    return None


def _denial(
    broker: "Broker", request: ClientRequest, message: InitProducerIdRequest
) -> type[KafkaError] | None:
    """Return the error of a caller without permission. Permission to write to any
    topic includes idempotent writes."""
    access, name = broker.access, message.transactional_id
    if name is None:
        allowed = access.allows_on_cluster(request, IDEMPOTENT_WRITE, quiet=True)
        if allowed or access.allows_any(request, WRITE_TOPIC):
            return None
        return ClusterAuthorizationFailed
    needs = (WRITE_TRANSACTIONAL_ID, *((TWO_PHASE_COMMIT,) if message.enable_2pc else ()))
    if all(access.allows(request, need, name) for need in needs):
        return None
    return TransactionalIdAuthorizationFailed


def _idempotent(drawn: int | KafkaError) -> ProducerIdAndEpoch | KafkaError:
    return drawn if isinstance(drawn, KafkaError) else ProducerIdAndEpoch(drawn, 0)


def _response(result: Any, version: int) -> InitProducerIdResponse:
    if not isinstance(result, ProducerIdAndEpoch):
        return _rejected(error_code(result, version, FENCED_FROM))
    return InitProducerIdResponse(
        producer_id=result.producer_id,
        producer_epoch=result.producer_epoch,
        ongoing_txn_producer_id=result.ongoing_producer_id,
        ongoing_txn_producer_epoch=result.ongoing_producer_epoch,
    )


def _rejected(code: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
