"""AddPartitionsToTxn, v0-v5: partitions that a transaction is about to write to.

v0-v3: from clients, one transaction.  v2: PRODUCER_FENCED.  v4: from leaders of partitions, many
transactions at once; verify_only asks whether the partitions were added, and changes nothing.
One partition that cannot be added refuses its whole transaction.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.request import ClientRequest
from penstock.broker.sliced_work import Slices
from penstock.broker.transactions.transactions import ask, error_code
from penstock.coordinator.transactions.events import AddPartitions, VerifyPartitions
from penstock.errors import (
    OperationNotAttempted,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.model import INTERNAL_TOPICS, TopicPartition
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

Codes = dict[TopicPartition, int]


def handle(
    broker: "Broker", request: ClientRequest, message: AddPartitionsToTxnRequest
) -> Slices[AddPartitionsToTxnResponse]:
    version = request.api_version
    wanted = message.transactions if version >= BATCHED_FROM else [_of_client(message)]
    codes_of: dict[int, Codes] = {}
    waiting: list[Callable[[], None]] = []

    def hear(place: int, codes: Codes) -> None:
        codes_of[place] = codes
        if waiting and len(codes_of) == len(wanted):
            waiting.pop()()

    for place, transaction in enumerate(wanted):
        yield from _ask(broker, transaction, version, partial(hear, place))
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
    wanted: AddPartitionsToTxnTransaction,
    version: int,
    done: Callable[[Codes], None],
) -> Slices[None]:
    found: dict[TopicPartition, None] = {}
    for topic in wanted.topics:
        for number, index in enumerate(topic.partitions, 1):
            found[TopicPartition(topic.name, index)] = None
            if not number % PARTITIONS_PER_SLICE:
                yield None
        yield None
    places = tuple(found)
    rejected = yield from _rejections(broker, places, from_client=version < BATCHED_FROM)
    if rejected:
        codes = dict.fromkeys(places, OperationNotAttempted.code)
        yield None
        codes.update(rejected)
        done(codes)
        return

    def answered(result: Any) -> None:
        if isinstance(result, dict):
            done({place: error_code(each, version, FENCED_FROM) for place, each in result.items()})
        else:
            done(dict.fromkeys(places, error_code(result, version, FENCED_FROM)))

    name, producer_id, epoch = wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
    if wanted.verify_only:
        ask(broker, name, VerifyPartitions(name, producer_id, epoch, places), answered)
    else:
        added = AddPartitions(name, producer_id, epoch, places, version >= BATCHED_FROM)
        ask(broker, name, added, answered)


def _rejections(
    broker: "Broker", places: Sequence[TopicPartition], *, from_client: bool
) -> Slices[Codes]:
    codes: Codes = {}
    for number, place in enumerate(places):
        if number % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
            yield None
        topic = broker.image.topics.get(place.topic)
        if from_client and place.topic in INTERNAL_TOPICS:
            codes[place] = TopicAuthorizationFailed.code  # AddOffsetsToTxn is the way
        elif topic is None or place.partition not in topic.partitions:
            codes[place] = UnknownTopicOrPartition.code
    return codes


def _by_topic(codes: Codes) -> Slices[list[AddPartitionsToTxnTopicResult]]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for number, (place, code) in enumerate(codes.items()):
        if number % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
            yield None
        topic = topics.setdefault(place.topic, AddPartitionsToTxnTopicResult(name=place.topic))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(
                partition_index=place.partition, partition_error_code=code
            )
        )
    return list(topics.values())


def _response(results: list[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= BATCHED_FROM:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
