"""AddPartitionsToTxn, v0-v5: partitions that a transaction is about to write to.

v0-v3: from clients, one transaction.  v2: PRODUCER_FENCED.  v4: from leaders of partitions, many
transactions at once; verify_only asks whether the partitions were added, and changes nothing.
One partition that cannot be added refuses its whole transaction. Clients need permission for the
transactional id and its topics, brokers for actions of the cluster.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.broker.transactions.transactions import ask, error_code
from penstock.coordinator.transactions.events import AddPartitions, VerifyPartitions
from penstock.errors import (
    ClusterAuthorizationFailed,
    OperationNotAttempted,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.model import INTERNAL_TOPICS, TopicPartition
from penstock.security.permissions import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from penstock.wire.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

FENCED_FROM = 2
BATCHED_FROM = 4
PARTITIONS_PER_SLICE = 500

Codes = dict[str, dict[int, int]]  # by topic and partition


def handle(
    broker: "Broker", request: ClientRequest, message: AddPartitionsToTxnRequest
) -> Slices[AddPartitionsToTxnResponse]:
    version = request.api_version
    from_broker = version >= BATCHED_FROM
    if from_broker and not broker.access.allows_on_cluster(request, CLUSTER_ACTION):
        raise ClusterAuthorizationFailed
    wanted = message.transactions if from_broker else [_of_client(message)]
    codes_of: dict[int, Codes] = {}
    waiting: list[Callable[[], None]] = []

    def hear(place: int, codes: Codes) -> None:
        codes_of[place] = codes
        if waiting and len(codes_of) == len(wanted):
            waiting.pop()()

    for place, transaction in enumerate(wanted):
        yield from _ask(broker, request, transaction, partial(hear, place))
    if len(codes_of) < len(wanted):
        yield waiting.append
    results = []
    for place, transaction in enumerate(wanted):
        result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id)
        result.topic_results = yield from _by_topic(codes_of[place])
        results.append(result)
    return _response(results, version)


def _of_client(message: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
        topics=message.v3_and_below_topics,
    )


def _ask(
    broker: "Broker",
    request: ClientRequest,
    wanted: AddPartitionsToTxnTransaction,
    done: Callable[[Codes], None],
) -> Slices[None]:
    codes: Codes = {}
    version = request.api_version
    from_client = version < BATCHED_FROM
    name, producer_id, epoch = wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
    denied = from_client and not broker.access.allows(request, WRITE_TRANSACTIONAL_ID, name)
    first = TransactionalIdAuthorizationFailed if denied else OperationNotAttempted
    for number, (topic, index) in enumerate(_each_partition(wanted), 1):
        codes.setdefault(topic, {})[index] = first.code
        if not number % PARTITIONS_PER_SLICE:
            yield None
    if denied or (yield from _reject(broker, request, codes, from_client=from_client)):
        done(codes)
        return
    # All of them exist, so a cluster's partitions bound their number.
    places = tuple(TopicPartition(topic, index) for topic in codes for index in codes[topic])

    def answered(result: Any) -> None:
        for place in places:
            each = result[place] if isinstance(result, dict) else result
            codes[place.topic][place.partition] = error_code(each, version, FENCED_FROM)
        done(codes)

    if wanted.verify_only:
        ask(broker, name, VerifyPartitions(name, producer_id, epoch, places), answered)
    else:
        added = AddPartitions(name, producer_id, epoch, places, version >= BATCHED_FROM)
        ask(broker, name, added, answered)


def _each_partition(wanted: AddPartitionsToTxnTransaction) -> Iterator[tuple[str, int]]:
    return ((topic.name, index) for topic in wanted.topics for index in topic.partitions)


def _reject(
    broker: "Broker", request: ClientRequest, codes: Codes, *, from_client: bool
) -> Slices[bool]:
    """Note the partitions that cannot be added; return whether there is one."""
    number, rejected = 0, False
    for name, of_topic in codes.items():
        topic = broker.image.topics.get(name)
        # AddOffsetsToTxn adds partitions of internal topics.
        denied = from_client and (
            name in INTERNAL_TOPICS or not broker.access.allows(request, WRITE_TOPIC, name)
        )
        for index in of_topic:
            number += 1
            if not number % PARTITIONS_PER_SLICE:
                yield None
            if denied:
                of_topic[index] = TopicAuthorizationFailed.code
            elif topic is None or index not in topic.partitions:
                of_topic[index] = UnknownTopicOrPartition.code
            else:
                continue
            rejected = True
    return rejected


def _by_topic(codes: Codes) -> Slices[list[AddPartitionsToTxnTopicResult]]:
    topics: list[AddPartitionsToTxnTopicResult] = []
    number = 0
    for name, of_topic in codes.items():
        topic = AddPartitionsToTxnTopicResult(name=name)
        topics.append(topic)
        for index, code in of_topic.items():
            number += 1
            if not number % PARTITIONS_PER_SLICE:
                yield None
            topic.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            )
    return topics


def _response(results: list[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
