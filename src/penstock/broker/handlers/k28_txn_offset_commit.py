"""TxnOffsetCommit, v0-v5: offsets of a group that count once the transaction is committed.

v3: member and generation, so that a zombie is recognised.  v5 (transactions v2): the group's
partition of __consumer_offsets joins the transaction by itself; before, AddOffsetsToTxn must have
added it, and that is verified.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.broker.coordinator_errors import client_error_code, codes_of, errors_by_topic
from penstock.broker.request import ClientRequest
from penstock.broker.transactions.txn_verification import Errors, VerificationRequest, known_error
from penstock.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    InvalidGroupId,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from penstock.model import CONSUMER_OFFSETS_TOPIC, TopicPartition
from penstock.security.permissions import READ_GROUP, READ_TOPIC, WRITE_TRANSACTIONAL_ID
from penstock.wire.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions.partition import Partition

ADDED_FROM = 5
ABORTABLE_FROM = 4
LOADING_FROM = 2  # older clients do not know that a coordinator may be loading


def handle(
    broker: "Broker", request: ClientRequest, message: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | None:
    version = request.api_version
    whole_denial: type[KafkaError] | None = None
    if not broker.access.allows(request, WRITE_TRANSACTIONAL_ID, message.transactional_id):
        whole_denial = TransactionalIdAuthorizationFailed
    elif not broker.access.allows(request, READ_GROUP, message.group_id):
        whole_denial = GroupAuthorizationFailed
    if whole_denial is not None:
        return _response(_every_partition(message.topics, whole_denial.code))
    known, unknown = _sorted_out(broker, request, message)
    if not known:
        return _response(unknown)
    if not message.group_id:
        code = InvalidGroupId.code
        return _response({**_every_partition(known, code), **unknown})
    message.topics = known

    def reject(error: KafkaError) -> None:
        code = client_error_code(error)
        if code == CoordinatorLoadInProgress.code and version < LOADING_FROM:
            code = CoordinatorNotAvailable.code
        request.reply(_response({**_every_partition(known, code), **unknown}))

    def committed(result: Any) -> None:
        if isinstance(result, KafkaError):
            reject(result)
        else:
            request.reply(_response({**codes_of(result.topics), **unknown}))

    def commit() -> None:
        broker.coordinators.submit(message.group_id, request, message, committed)

    def joined(partition: "Partition", leader_epoch: int, errors: Errors) -> None:
        [error] = errors.values()
        if error is None:
            error = _vouch(partition, leader_epoch, message)
        if error is None:
            commit()
        else:
            reject(known_error(error, abortable=version >= ABORTABLE_FROM))

    try:
        question = _question(broker, message, version)
    except KafkaError as error:
        reject(error)
        return None
    if question is None:
        commit()
    else:
        [topic_partition] = question.topic_partitions
        partition = broker.find(*topic_partition)
        done = partial(joined, partition, partition.leader.epoch)
        broker.coordinators.verification.ask(question, done)
    return None


def _question(
    broker: "Broker", message: TxnOffsetCommitRequest, version: int
) -> VerificationRequest | None:
    """Return the verification that must come first; None if the coordinator vouches already."""
    coordinators = broker.coordinators
    coordinators.group_runtime(message.group_id)
    index = coordinators.partition_of(CONSUMER_OFFSETS_TOPIC, message.group_id)
    assert index is not None, "a group with a coordinator has a partition"
    producer = message.producer_id, message.producer_epoch
    adds = version >= ADDED_FROM
    if broker.find(CONSUMER_OFFSETS_TOPIC, index).has_open(*producer):
        return None
    if not coordinators.verification.must_ask(adds):
        return None
    topic_partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, index)
    return VerificationRequest(message.transactional_id, *producer, (topic_partition,), adds)


def _vouch(
    partition: "Partition", leader_epoch: int, message: TxnOffsetCommitRequest
) -> KafkaError | None:
    """Note a verified producer; return the error if a new owner has its transaction by now, or may
    have it."""
    if partition.leader.epoch != leader_epoch:
        return NotCoordinator(f"{partition} has another leader epoch since its request")
    try:
        partition.verified_producers.vouch(message.producer_id, message.producer_epoch)
    except ProducerFenced as fenced:
        return fenced
    return None


def _sorted_out(
    broker: "Broker", request: ClientRequest, message: TxnOffsetCommitRequest
) -> tuple[list[TxnOffsetCommitRequestTopic], dict[TopicPartition, int]]:
    """Return the topics that exist, and error codes for partitions that are unknown or denied."""
    known: list[TxnOffsetCommitRequestTopic] = []
    unknown: dict[TopicPartition, int] = {}
    for topic in message.topics:
        if not broker.access.allows(request, READ_TOPIC, topic.name):
            unknown.update(_every_partition([topic], TopicAuthorizationFailed.code))
            continue
        found = broker.image.topics.get(topic.name)
        partitions = [
            each for each in topic.partitions if found and each.partition_index in found.partitions
        ]
        if partitions:
            known.append(TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions))
        for each in topic.partitions:
            if not found or each.partition_index not in found.partitions:
                topic_partition = TopicPartition(topic.name, each.partition_index)
                unknown[topic_partition] = UnknownTopicOrPartition.code
    return known, unknown


def _every_partition(
    topics: list[TxnOffsetCommitRequestTopic], code: int
) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): code
        for topic in topics
        for each in topic.partitions
    }


def _response(codes: dict[TopicPartition, int]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=errors_by_topic(codes))
