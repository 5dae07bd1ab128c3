"""Requests to the coordinator of a transactional id, from handlers and partition leaders."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import to_client_error
from penstock.coordinator.transactions.events import EndTransaction, InitProducer, NeedsProducerId
from penstock.errors import InvalidProducerEpoch, InvalidRequest, KafkaError, ProducerFenced

if TYPE_CHECKING:
    from penstock.broker.transactions.broker_view import TransactionsBroker


def ask(
    broker: "TransactionsBroker", transactional_id: str, event: Any, done: Callable[[Any], None]
) -> None:
    """Submit an event; call `done` once, with the coordinator's answer or a KafkaError."""

    def answered(result: Any) -> None:
        done(to_client_error(result) if isinstance(result, KafkaError) else result)

    if not transactional_id:
        done(InvalidRequest("a transactional id is not empty"))
        return
    try:
        runtime = broker.coordinators.transaction_runtime(transactional_id)
    except KafkaError as error:
        done(error)
        return
    runtime.submit(event, answered)


def ask_with_ids(
    broker: "TransactionsBroker", event: InitProducer | EndTransaction, done: Callable[[Any], None]
) -> None:
    """Do the same for an event that may need an unused producer id."""

    def answered(result: Any) -> None:
        if isinstance(result, NeedsProducerId):
            broker.producer_ids.draw(drawn)
        else:
            done(result)

    def drawn(result: int | KafkaError) -> None:
        if isinstance(result, KafkaError):
            done(result)
        else:
            ask(broker, event.transactional_id, replace(event, drawn=result), done)

    ask(broker, event.transactional_id, event, answered)


def error_code(result: Any, version: int, fenced_from: int) -> int:
    """Return the error code of an answer, or 0. Older clients do not know PRODUCER_FENCED."""
    if not isinstance(result, KafkaError):
        return 0
    if isinstance(result, ProducerFenced) and version < fenced_from:
        return InvalidProducerEpoch.code
    return result.code
