"""WriteTxnMarkers, v1-v2: ends transactions in partitions that this node leads.

From coordinators, and from tools that abort a transaction which no coordinator knows of any more.
v2: how strictly each marker's epoch is judged (KIP-1228). A marker without a producer is rejected.
"""

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.coordinator_errors import errors_by_topic
from penstock.broker.request import ClientRequest
from penstock.coordinator.records import EndMarker
from penstock.errors import KafkaError, UnknownServerError
from penstock.model import TopicPartition
from penstock.wire.messages.k27_write_txn_markers import (
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

TRANSACTIONS_V2 = 2

Codes = dict[TopicPartition, int]


def denied(message: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    """Return the error for each partition of each marker."""
    codes: dict[int, Codes] = {}
    for wanted in message.markers:
        of_producer = codes.setdefault(wanted.producer_id, {})
        for topic in wanted.topics:
            for index in topic.partition_indexes:
                of_producer[TopicPartition(topic.name, index)] = error.code
    return _response(codes)


def handle(broker: "Broker", request: ClientRequest, message: WriteTxnMarkersRequest) -> None:
    results: dict[int, Codes] = {}
    left = 1  # the loop below, so that the answer leaves once

    def settle() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            request.reply(_response(results))

    def written(codes: Codes, topic_partition: TopicPartition, error: KafkaError | None) -> None:
        codes[topic_partition] = 0 if error is None else error.code
        settle()

    for wanted in message.markers:
        topic_partitions = [
            TopicPartition(topic.name, index)
            for topic in wanted.topics
            for index in topic.partition_indexes
        ]
        codes = results.setdefault(wanted.producer_id, {})
        if wanted.producer_id < 0 or wanted.producer_epoch < 0:
            # A marker without a producer ends no transaction. Kafka fails to build such a batch.
            codes.update(dict.fromkeys(topic_partitions, UnknownServerError.code))
            continue
        left += len(topic_partitions)
        marker = EndMarker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.coordinator_epoch,
            wanted.transaction_result,
            wanted.transaction_version >= TRANSACTIONS_V2,
        )
        broker.coordinators.markers.here.write(marker, topic_partitions, partial(written, codes))
    settle()


def _response(results: dict[int, Codes]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=errors_by_topic(codes))
            for producer_id, codes in results.items()
        ]
    )
