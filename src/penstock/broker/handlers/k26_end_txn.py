"""EndTxn, v0-v5: commits or aborts a transaction.  v2: PRODUCER_FENCED.

v5 (transactions v2): every end bumps the epoch, and the answer says who the producer is now.
The answer leaves when the decision is stored; the markers follow.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.transactions.transactions import ask_with_ids, error_code
from penstock.coordinator.transactions.events import EndTransaction, ProducerIdAndEpoch
from penstock.errors import TransactionalIdAuthorizationFailed
from penstock.security.permissions import WRITE_TRANSACTIONAL_ID
from penstock.wire.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FENCED_FROM = 2
TRANSACTIONS_V2_FROM = 5


def handle(
    broker: "Broker", request: ClientRequest, message: EndTxnRequest
) -> EndTxnResponse | None:
    version = request.api_version
    if not broker.access.allows(request, WRITE_TRANSACTIONAL_ID, message.transactional_id):
        return EndTxnResponse(error_code=TransactionalIdAuthorizationFailed.code)

    def answered(result: Any) -> None:
        response = EndTxnResponse(error_code=error_code(result, version, FENCED_FROM))
        if isinstance(result, ProducerIdAndEpoch):
            response.producer_id = result.producer_id
            response.producer_epoch = result.producer_epoch
        request.reply(response)

    event = EndTransaction(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        message.committed,
        version >= TRANSACTIONS_V2_FROM,
    )
    ask_with_ids(broker, event, answered)
    return None
