"""ListTransactions, v0-v2: the transactional ids that this node coordinates.

By state and producer id.  v1: by how long a transaction is open.  v2: by a pattern that the whole
id must match (RE2). One coordinator that is still loading fails the whole question.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.gathering import ask_in_turn
from penstock.broker.request import Request
from penstock.broker.sliced_work import Slices
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


CHARACTERS_PER_SLICE = 10_000  # of ids that are compared with a pattern


def handle(
    broker: "Broker", _request: Request, message: ListTransactionsRequest
) -> Slices[ListTransactionsResponse]:
    """A pattern that is none, or takes too long, is refused as a whole, by its error code."""
    text = message.transactional_id_pattern
    pattern = NamePattern(text) if text else None
    event = ListIds(
        frozenset(message.state_filters),
        frozenset(message.producer_id_filters),
        message.duration_filter,
    )
    found: dict[str, Transaction] = {}
    for answer in (yield from ask_in_turn(broker.coordinators.transactions.values(), event)):
        if isinstance(answer, NotCoordinator):
            continue  # the leader of that partition lists its ids
        if isinstance(answer, KafkaError):
            return ListTransactionsResponse(error_code=answer.code)
        found.update((each.transactional_id, each) for each in answer)
        yield None
    names = list(found) if pattern is None else (yield from _matching(pattern, found))
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in event.states if each not in TITLES],
        transaction_states=[_state(found[name]) for name in names],
    )


def _matching(pattern: NamePattern, names: Iterable[str]) -> Slices[list[str]]:
    matching: list[str] = []
    characters = 0
    for name in names:
        if pattern.matches(name):
            matching.append(name)
        characters += 1 + len(name)
        if characters > CHARACTERS_PER_SLICE:
            characters = 0
            yield None
    return matching


def _state(transaction: Transaction) -> TransactionState:
    return TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer.producer_id,
        transaction_state=transaction.status.title,
    )
