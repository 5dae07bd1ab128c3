"""DescribeTransactions, v0: the state of transactional ids that this node coordinates.

A request may name as many as fit into it: they are looked up in slices, one per turn of the loop.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Any

from penstock.broker.request import Request
from penstock.broker.transactions import ask
from penstock.coordinator.transactions.events import Describe
from penstock.coordinator.transactions.state import Transaction
from penstock.errors import KafkaError
from penstock.wire.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

NAMES_PER_TURN_MAX = 200


def handle(broker: "Broker", request: Request, message: DescribeTransactionsRequest) -> None:
    states = [TransactionState(transactional_id=each) for each in message.transactional_ids]
    left = 1 + len(states)

    def settle() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            request.reply(DescribeTransactionsResponse(transaction_states=states))

    def answered(state: TransactionState, result: Any) -> None:
        _fill(state, result)
        settle()

    def go_on(unasked: Iterator[TransactionState]) -> None:
        for state in islice(unasked, NAMES_PER_TURN_MAX):
            name = state.transactional_id
            ask(broker, name, Describe(name), partial(answered, state))
        if length_hint(unasked):
            broker.world.timers.soon(partial(go_on, unasked))
        else:
            settle()

    go_on(iter(states))


def _fill(state: TransactionState, result: Transaction | KafkaError) -> None:
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
