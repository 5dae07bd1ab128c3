"""ListTransactions, v0-v2: the transactional ids that this node coordinates.

By state and producer id.  v1: by how long a transaction is open.  v2: by a pattern that the whole
id must match (RE2). One coordinator that is still loading fails the whole question.
"""

from typing import TYPE_CHECKING, Any

from penstock.broker.gathering import ask_each
from penstock.broker.request import Request
from penstock.coordinator.patterns import NamePattern
from penstock.coordinator.transactions.events import ListIds
from penstock.coordinator.transactions.state import TITLES, Transaction
from penstock.errors import KafkaError, NotCoordinator
from penstock.wire.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(broker: "Broker", request: Request, message: ListTransactionsRequest) -> None:
    """A pattern that is none is refused as a whole, by its error code."""
    text = message.transactional_id_pattern
    pattern = NamePattern(text) if text else None
    event = ListIds(
        frozenset(message.state_filters),
        frozenset(message.producer_id_filters),
        message.duration_filter,
    )

    def done(answers: list[Any]) -> None:
        response = ListTransactionsResponse(
            unknown_state_filters=[each for each in message.state_filters if each not in TITLES]
        )
        for answer in answers:
            if isinstance(answer, NotCoordinator):
                continue  # whoever leads that partition lists its ids
            if isinstance(answer, KafkaError):
                request.reply(ListTransactionsResponse(error_code=answer.code))
                return
            response.transaction_states += [
                _state(each)
                for each in answer
                if pattern is None or pattern.matches(each.transactional_id)
            ]
        request.reply(response)

    transactions = broker.coordinators.transactions
    ask_each([(runtime, event) for runtime in transactions.values()], done)


def _state(transaction: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer.producer_id,
        transaction_state=transaction.status.title,
    )
