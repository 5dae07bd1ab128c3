"""Requests to a group's coordinator about what the group has committed.

Topics are named, not numbered: offsets of a topic outlive it, and the versions with topic ids
(from 10 on) have no way to say which topic that was.
"""

from collections.abc import Mapping, Sequence

from penstock.client.connection import Connection
from penstock.client.coordinator_values import CommittedOffset
from penstock.client.routing import MOVING
from penstock.errors import KafkaError, UnknownServerError, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import k08_offset_commit, k09_offset_fetch, k47_offset_delete

NAMED_TOPICS_LAST = 9  # OffsetCommit and OffsetFetch have topic ids instead from the next one on
NO_GENERATION = -1  # a commit from outside the group
NO_OFFSET = -1


def ask_committed(
    connection: Connection, name: str, require_stable: bool
) -> dict[TopicPartition, CommittedOffset] | KafkaError:
    wire = k09_offset_fetch
    request = wire.OffsetFetchRequest(
        group_id=name,
        topics=None,
        groups=[wire.OffsetFetchRequestGroup(group_id=name, topics=None)],
        require_stable=require_stable,
    )
    version = min(connection.version_for(request), NAMED_TOPICS_LAST)
    answer = connection.request(request, wire.OffsetFetchResponse, version)
    code = answer.groups[0].error_code if answer.groups else answer.error_code
    if code:
        return from_code(code)
    committed: dict[TopicPartition, CommittedOffset] = {}
    for topic in answer.groups[0].topics if answer.groups else answer.topics:
        for each in topic.partitions:
            if each.error_code:
                return from_code(each.error_code)
            if each.committed_offset != NO_OFFSET:
                committed[TopicPartition(topic.name, each.partition_index)] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(committed.items()))


def ask_commit(
    connection: Connection, name: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None] | KafkaError:
    wire = k08_offset_commit
    topics: dict[str, k08_offset_commit.OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        named = topics.setdefault(topic, wire.OffsetCommitRequestTopic(name=topic))
        named.partitions.append(
            wire.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        )
    request = wire.OffsetCommitRequest(
        group_id=name,
        generation_id_or_member_epoch=NO_GENERATION,
        topics=list(topics.values()),
    )
    version = min(connection.version_for(request), NAMED_TOPICS_LAST)
    answer = connection.request(request, wire.OffsetCommitResponse, version)
    codes = {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
    return _results(list(offsets), codes)


def ask_delete_offsets(
    connection: Connection, name: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, KafkaError | None] | KafkaError:
    wire = k47_offset_delete
    topics: dict[str, k47_offset_delete.OffsetDeleteRequestTopic] = {}
    for topic, partition in partitions:
        named = topics.setdefault(topic, wire.OffsetDeleteRequestTopic(name=topic))
        named.partitions.append(wire.OffsetDeleteRequestPartition(partition_index=partition))
    request = wire.OffsetDeleteRequest(group_id=name, topics=list(topics.values()))
    answer = connection.request(request, wire.OffsetDeleteResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    codes = {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
    return _results(partitions, codes)


def _results(
    partitions: Sequence[TopicPartition], codes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None] | KafkaError:
    """A result for each partition, or the one error that has all of them asked again."""
    found: dict[TopicPartition, KafkaError | None] = {}
    for each in partitions:
        code = codes.get(each, UnknownServerError.code)
        error = from_code(code) if code else None
        if isinstance(error, MOVING):
            return error
        found[each] = error
    return found
