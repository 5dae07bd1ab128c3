"""Asking the coordinator of a transactional id, from handlers and from leaders of partitions."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_refusals import told
from penstock.coordinator.transactions.events import EndTransaction, InitProducer, NeedsProducerId
from penstock.errors import InvalidProducerEpoch, InvalidRequest, KafkaError, ProducerFenced

if TYPE_CHECKING:
    from penstock.broker.broker import Broker


def ask(broker: "Broker", transactional_id: str, event: Any, done: Callable[[Any], None]) -> None:
    """`done` gets the coordinator's answer or a KafkaError, exactly once."""

    def answered(result: Any) -> None:
        done(told(result) if isinstance(result, KafkaError) else result)

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
    broker: "Broker", event: InitProducer | EndTransaction, done: Callable[[Any], None]
) -> None:
    """As `ask`, for a question that may need an unused producer id."""

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
    """The code of an answer, 0 for what is no error. Older clients do not know PRODUCER_FENCED."""
    if not isinstance(result, KafkaError):
        return 0
    if isinstance(result, ProducerFenced) and version < fenced_from:
        return InvalidProducerEpoch.code
    return result.code
