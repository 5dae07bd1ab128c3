"""OffsetFetch, v1-v10: the offsets that groups have committed.

v2: all topics of a group, an error for the whole group.  v7: require_stable.  v8: many groups in
one request, each asked of its own coordinator.  v9: member id and epoch.  v10: topic ids; an
unknown id gets UNKNOWN_TOPIC_ID. A partition without a commit has the offset -1 and no error.
"""

from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.coordinator_errors import client_error_code
from penstock.broker.coordinators.scatter_gather import ask_each
from penstock.broker.request import ClientRequest
from penstock.controller.image import Image
from penstock.errors import (
    NONE,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicId,
)
from penstock.security.permissions import DESCRIBE_GROUP, DESCRIBE_TOPIC
from penstock.wire.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.coordinator.groups.machine import GroupCoordinator
    from penstock.machine.runtime import Runtime

GROUP_ERRORS_FROM = 2
MANY_GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
NO_OFFSET = -1


def handle(broker: "Broker", request: ClientRequest, message: OffsetFetchRequest) -> None:
    version = request.api_version
    asked = message.groups if version >= MANY_GROUPS_FROM else [_only_group(message)]
    answers: dict[int, OffsetFetchResponseGroup] = {}
    by_runtime: dict[Runtime[GroupCoordinator], list[_Question]] = {}
    for place, group in enumerate(asked):
        if not broker.access.allows(request, DESCRIBE_GROUP, group.group_id):
            answers[place] = _rejected_group(group, GroupAuthorizationFailed())
            continue
        try:
            runtime = broker.coordinators.group_runtime(group.group_id)
        except KafkaError as error:
            answers[place] = _rejected_group(group, error)
            continue
        question = _Question(place, group, [])
        if group.topics is not None:
            question = _Question(place, *_sorted_out(broker, request, group, group.topics))
        by_runtime.setdefault(runtime, []).append(question)

    def done(replies: list[OffsetFetchResponse | KafkaError]) -> None:
        for questions, result in zip(by_runtime.values(), replies, strict=True):
            for number, (place, group, rejected) in enumerate(questions):
                if isinstance(result, KafkaError):
                    answers[place] = _rejected_group(group, result)
                    continue
                answer = answers[place] = result.groups[number]
                if answer.error_code == NONE:
                    answer.topics += rejected
                if group.topics is None:
                    _leave_out_hidden(broker, request, answer)
                if version >= TOPIC_IDS_FROM and group.topics is None:
                    _add_ids(broker.image, answer)
        groups = [answers[place] for place in range(len(asked))]
        request.reply(_response(version, asked, groups))

    calls = []
    for runtime, questions in by_runtime.items():
        wanted = OffsetFetchRequest(
            groups=[each.group for each in questions], require_stable=message.require_stable
        )
        calls.append((runtime, broker.coordinators.call(request, wanted)))
    ask_each(calls, done)


def _only_group(message: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the only group of a request before v8, in the form of later versions."""
    if message.topics is None:
        return OffsetFetchRequestGroup(group_id=message.group_id, topics=None)
    topics = [
        OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
        for each in message.topics
    ]
    return OffsetFetchRequestGroup(group_id=message.group_id, topics=topics)


class _Question(NamedTuple):
    """One group of a request: its place, the part for its coordinator, and answers for topics that
    are unknown or hidden."""

    place: int
    group: OffsetFetchRequestGroup
    rejected: list[OffsetFetchResponseTopics]


def _rejected_group(asked: OffsetFetchRequestGroup, error: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=client_error_code(error))


def _sorted_out(
    broker: "Broker",
    request: ClientRequest,
    asked: OffsetFetchRequestGroup,
    asked_topics: list[OffsetFetchRequestTopics],
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """Return the group with the names of its topics, and answers for unknown ids and for topics
    that the caller may not describe."""
    by_id = request.api_version >= TOPIC_IDS_FROM
    rejected: list[OffsetFetchResponseTopics] = []
    topics: list[OffsetFetchRequestTopics] = []
    for topic in asked_topics:
        name = broker.image.topic_names.get(topic.topic_id) if by_id else topic.name
        indexes = topic.partition_indexes
        error: type[KafkaError] | None = None
        if name is None:
            error = UnknownTopicId
        elif not broker.access.allows(request, DESCRIBE_TOPIC, name):
            error = TopicAuthorizationFailed
        if name is None or error is not None:
            rejected.append(
                OffsetFetchResponseTopics(
                    name="" if by_id else topic.name,
                    topic_id=topic.topic_id,
                    partitions=_rejected(indexes, (error or UnknownTopicId).code),
                )
            )
        else:
            topics.append(
                OffsetFetchRequestTopics(
                    name=name, topic_id=topic.topic_id, partition_indexes=indexes
                )
            )
    named = OffsetFetchRequestGroup(
        group_id=asked.group_id,
        member_id=asked.member_id,
        member_epoch=asked.member_epoch,
        topics=topics,
    )
    return named, rejected


def _leave_out_hidden(
    broker: "Broker", request: ClientRequest, answer: OffsetFetchResponseGroup
) -> None:
    """Leave out the topics that the caller may not describe from all topics of a group."""
    access = broker.access
    answer.topics = [
        each
        for each in answer.topics
        if access.allows(request, DESCRIBE_TOPIC, each.name, quiet=True)
    ]


def _add_ids(image: Image, answer: OffsetFetchResponseGroup) -> None:
    """Set the ids of all topics of a group; drop deleted topics, which have no id."""
    kept = []
    for topic in answer.topics:
        found = image.topics.get(topic.name)
        if found is not None:
            topic.topic_id = found.topic_id
            kept.append(topic)
    answer.topics = kept


def _rejected(partitions: list[int], error_code: int) -> list[OffsetFetchResponsePartitions]:
    return [
        OffsetFetchResponsePartitions(
            partition_index=each, committed_offset=NO_OFFSET, error_code=error_code
        )
        for each in partitions
    ]


def _response(
    version: int, asked: list[OffsetFetchRequestGroup], groups: list[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    """Return the answers in the fields of this version."""
    if version >= MANY_GROUPS_FROM:
        return OffsetFetchResponse(groups=groups)
    only = groups[0]
    topics = only.topics
    if only.error_code != NONE and version < GROUP_ERRORS_FROM:
        topics = [
            OffsetFetchResponseTopics(
                name=each.name, partitions=_rejected(each.partition_indexes, only.error_code)
            )
            for each in asked[0].topics or ()
        ]
    return OffsetFetchResponse(
        error_code=only.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ],
    )
