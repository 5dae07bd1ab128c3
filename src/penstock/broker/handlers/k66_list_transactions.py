"""ListTransactions, v0-v2: the transactional ids that this node coordinates.

By state and producer id.  v1: by how long a transaction is open.  v2: by a pattern that the whole
id must match (RE2). One coordinator that is still loading fails the whole question.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.coordinators.scatter_gather import ask_in_turn
from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.coordinator.patterns import NamePattern
from penstock.coordinator.transactions.events import ListTransactionalIds
from penstock.coordinator.transactions.state import TITLES, TransactionMetadata
from penstock.errors import KafkaError, NotCoordinator
from penstock.security.permissions import DESCRIBE_TRANSACTIONAL_ID
from penstock.wire.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


FILTERS_PER_SLICE = 1_000
CHARACTERS_PER_SLICE = 10_000  # of ids that are compared with a pattern


def handle(
    broker: "Broker", request: ClientRequest, message: ListTransactionsRequest
) -> Slices[ListTransactionsResponse]:
    """Reject the whole request if its pattern is invalid or takes too long."""
    text = message.transactional_id_pattern
    pattern = NamePattern(text) if text else None
    unknown: dict[str, None] = {}
    for number, state in enumerate(message.state_filters, 1):
        if state not in TITLES:
            unknown[state] = None
        if not number % FILTERS_PER_SLICE:
            yield None
    states = frozenset(TITLES).intersection(message.state_filters)
    if unknown and not states:
        states = frozenset(("",))  # no transaction is in an unknown state
    event = ListTransactionalIds(
        states, frozenset(message.producer_id_filters), message.duration_filter
    )
    may_see = broker.access.allows
    found: dict[str, TransactionMetadata] = {}
    for answer in (yield from ask_in_turn(broker.coordinators.transactions.values(), event)):
        if isinstance(answer, NotCoordinator):
            continue  # the leader of that partition lists its ids
        if isinstance(answer, KafkaError):
            return ListTransactionsResponse(error_code=answer.code)
        found.update(
            (each.transactional_id, each)
            for each in answer
            if may_see(request, DESCRIBE_TRANSACTIONAL_ID, each.transactional_id, quiet=True)
        )
        yield None
    names = list(found) if pattern is None else (yield from _matching(pattern, found))
    return ListTransactionsResponse(
        unknown_state_filters=list(unknown),
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


def _state(transaction: TransactionMetadata) -> TransactionState:
    return TransactionState(
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer.producer_id,
        transaction_state=transaction.status.title,
    )
