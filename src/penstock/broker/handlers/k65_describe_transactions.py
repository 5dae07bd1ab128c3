"""DescribeTransactions, v0: the state of transactional ids that this node coordinates."""

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.transactions.transactions import ask
from penstock.coordinator.transactions.events import DescribeTransaction
from penstock.coordinator.transactions.state import TransactionMetadata
from penstock.errors import KafkaError, TransactionalIdAuthorizationFailed
from penstock.security.permissions import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID
from penstock.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def handle(
    broker: "Broker", request: ClientRequest, message: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | None:
    states = [TransactionState(transactional_id=each) for each in message.transactional_ids]
    left = len(states)
    if not left:
        return DescribeTransactionsResponse()

    def may_see(topic: str) -> bool:
        return broker.access.allows(request, DESCRIBE_TOPIC, topic, quiet=True)

    def answered(state: TransactionState, result: Any) -> None:
        nonlocal left
        _fill(state, result)
        state.topics = [each for each in state.topics if may_see(each.topic)]
        left -= 1
        if left == 0:
            request.reply(DescribeTransactionsResponse(transaction_states=states))

    for state in states:
        name = state.transactional_id
        if not broker.access.allows(request, DESCRIBE_TRANSACTIONAL_ID, name):
            answered(state, TransactionalIdAuthorizationFailed())
            continue
        ask(broker, name, DescribeTransaction(name), partial(answered, state))
    return None


def _fill(state: TransactionState, result: TransactionMetadata | KafkaError) -> None:
    if isinstance(result, KafkaError):
        state.error_code = result.code
        return
    topics: dict[str, TopicData] = {}
    for topic, index in sorted(result.partitions):
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(index)
    state.transaction_state = result.status.title
    state.transaction_timeout_ms = result.timeout_ms
    state.transaction_start_time_ms = result.started_ms
    state.producer_id, state.producer_epoch = result.producer
    state.topics = list(topics.values())
