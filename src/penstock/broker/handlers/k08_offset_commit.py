"""OffsetCommit, v2-v10: how far a group has read.

v2-v4: the client may say how long to keep it.  v7: static members.  v9: members of consumer groups
commit too; GROUP_ID_NOT_FOUND.  v10: topic ids; an unknown id gets UNKNOWN_TOPIC_ID.
Errors are per partition. The handler rejects topics without permission and unknown partitions; the
group checks the others.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.broker.coordinator_errors import client_error_code
from penstock.broker.request import ClientRequest
from penstock.errors import (
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.security.permissions import READ_GROUP, READ_TOPIC
from penstock.wire.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from penstock.wire.structures import PartitionError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

TOPIC_IDS_FROM = 10


def handle(
    broker: "Broker", request: ClientRequest, message: OffsetCommitRequest
) -> OffsetCommitResponse | None:
    answers = _Answers()
    if not broker.access.allows(request, READ_GROUP, message.group_id):
        for each in message.topics:
            answers.reject(each, GroupAuthorizationFailed.code)
        return answers.response
    known = [
        topic
        for each in message.topics
        if (topic := _known(broker, request, each, answers)).partitions
    ]
    if not known:
        return answers.response

    def done(result: OffsetCommitResponse | KafkaError) -> None:
        if isinstance(result, KafkaError):
            for topic in known:
                answers.reject(topic, client_error_code(result))
        elif not answers.response.topics:
            request.reply(result)  # nothing was refused here
            return
        else:
            for answer in result.topics:
                answers.take(answer)
        request.reply(answers.response)

    message.topics = known
    broker.coordinators.submit(message.group_id, request, message, done)
    return None


def _known(
    broker: "Broker",
    request: ClientRequest,
    asked: OffsetCommitRequestTopic,
    answers: "_Answers",
) -> OffsetCommitRequestTopic:
    """Return the known partitions of a topic, under its name and id; answer the others."""
    image = broker.image
    by_id = request.api_version >= TOPIC_IDS_FROM
    name = image.topic_names.get(asked.topic_id, "") if by_id else asked.name
    topic = image.topics.get(name)
    asked.name = name
    is_unknown_id = by_id and topic is None
    if not (is_unknown_id or broker.access.allows(request, READ_TOPIC, name)):
        answers.reject(asked, TopicAuthorizationFailed.code)
        return OffsetCommitRequestTopic()
    if topic is None:
        answers.reject(asked, UnknownTopicId.code if by_id else UnknownTopicOrPartition.code)
        return OffsetCommitRequestTopic()
    asked.topic_id = topic.topic_id
    partitions = topic.partitions
    known = [each for each in asked.partitions if each.partition_index in partitions]
    if len(known) < len(asked.partitions):
        unknown = [each for each in asked.partitions if each.partition_index not in partitions]
        rejected = OffsetCommitRequestTopic(name=name, topic_id=topic.topic_id, partitions=unknown)
        answers.reject(rejected, UnknownTopicOrPartition.code)
        asked.partitions = known
    return asked


class _Answers:
    """The response under way: one entry per topic."""

    def __init__(self) -> None:
        self.response = OffsetCommitResponse()
        self._topics: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}

    def reject(self, topic: OffsetCommitRequestTopic, error_code: int) -> None:
        indexes = (each.partition_index for each in topic.partitions)
        errors = [PartitionError(partition_index=each, error_code=error_code) for each in indexes]
        self._add(topic.name, topic.topic_id, errors)

    def take(self, answer: OffsetCommitResponseTopic) -> None:
        self._add(answer.name, answer.topic_id, answer.partitions)

    def _add(self, name: str, topic_id: bytes, partitions: Iterable[PartitionError]) -> None:
        topic = self._topics.get((name, topic_id))
        if topic is None:
            topic = OffsetCommitResponseTopic(name=name, topic_id=topic_id)
            self._topics[name, topic_id] = topic
            self.response.topics.append(topic)
        topic.partitions.extend(partitions)
