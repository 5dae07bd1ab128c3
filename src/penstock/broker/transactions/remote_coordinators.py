"""Transactions whose partitions and coordinator are on different nodes: the requests in between.

A coordinator sends markers to the leaders of partitions. A leader asks the coordinator before the
first write of a transaction. A failed link is an error that is tried again.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.broker.links.links import LinkPurpose
from penstock.coordinator.records import EndMarker
from penstock.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    NotLeaderOrFollower,
    UnknownServerError,
    error_of,
    from_code,
)
from penstock.model import TopicPartition
from penstock.wire.messages import k24_add_partitions_to_txn as k24
from penstock.wire.messages import k27_write_txn_markers as k27

if TYPE_CHECKING:
    from penstock.broker.transactions.broker_view import TransactionsBroker
    from penstock.broker.transactions.txn_markers import MarkerWritten
    from penstock.broker.transactions.txn_verification import Errors, VerificationRequest

TIMEOUT_MS = 30_000
TRANSACTIONS_V2 = 2


class RemoteMarkers:
    """The partitions that another node leads."""

    def __init__(self, broker: "TransactionsBroker", node_id: int) -> None:
        self._broker = broker
        self._node_id = node_id

    def write(
        self,
        marker: EndMarker,
        topic_partitions: Iterable[TopicPartition],
        written: "MarkerWritten",
    ) -> None:
        """Have the leader write the marker; call `written` for each partition."""
        wanted = list(topic_partitions)

        def answered(result: k27.WriteTxnMarkersResponse | Exception) -> None:
            if isinstance(result, Exception):
                failure = NotLeaderOrFollower(str(result))
                for topic_partition in wanted:
                    written(topic_partition, failure)
                return
            codes = _marker_codes(result)
            for topic_partition in wanted:
                code = codes.get(topic_partition, UnknownServerError.code)
                written(topic_partition, error_of(code))

        request = k27.WriteTxnMarkersRequest(markers=[_marker_request(marker, wanted)])
        self._broker.links.send(
            self._node_id,
            request,
            k27.WriteTxnMarkersResponse,
            LinkPurpose.TRANSACTION,
            TIMEOUT_MS,
            answered,
        )


def _marker_request(
    marker: EndMarker, topic_partitions: Iterable[TopicPartition]
) -> k27.WritableTxnMarker:
    return k27.WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=[
            k27.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in indexes_by_topic(topic_partitions).items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=TRANSACTIONS_V2 if marker.transactions_v2 else 0,
    )


def _marker_codes(response: k27.WriteTxnMarkersResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }


def indexes_by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic."""
    found: dict[str, list[int]] = {}
    for topic, index in topic_partitions:
        found.setdefault(topic, []).append(index)
    return found


def ask_coordinator(
    broker: "TransactionsBroker",
    node_id: int,
    question: "VerificationRequest",
    done: "Callable[[Errors | KafkaError], None]",
) -> None:
    """Have the coordinator on another node add or verify partitions; `done` gets their errors, or
    the error of the request."""
    transaction = k24.AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=not question.adds,
        topics=[
            k24.AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in indexes_by_topic(question.topic_partitions).items()
        ],
    )

    def answered(result: k24.AddPartitionsToTxnResponse | Exception) -> None:
        if isinstance(result, Exception):
            done(CoordinatorNotAvailable(str(result)))
        elif result.error_code:
            done(from_code(result.error_code))
        else:
            done(_errors_in(result, question.topic_partitions))

    broker.links.send(
        node_id,
        k24.AddPartitionsToTxnRequest(transactions=[transaction]),
        k24.AddPartitionsToTxnResponse,
        LinkPurpose.TRANSACTION,
        TIMEOUT_MS,
        answered,
    )


def _errors_in(
    response: k24.AddPartitionsToTxnResponse, asked: Iterable[TopicPartition]
) -> "Errors | KafkaError":
    """Return an error or None for each partition; one error if all have the same."""
    codes = {
        TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for partition in topic.results_by_partition
    }
    found = {each: codes.get(each, UnknownServerError.code) for each in asked}
    distinct = set(found.values())
    if len(distinct) == 1 and (only := error_of(distinct.pop())) is not None:
        return only
    return {each: error_of(code) for each, code in found.items()}
