"""Requests to a group's coordinator: committed offsets, and members that leave.

Requests name topics instead of using topic ids: committed offsets outlive a topic, and the versions
with topic ids (from 10 on) cannot name a deleted one.
"""

from collections.abc import Mapping, Sequence

from penstock.client.admin.coordinator_values import CommittedOffset, GroupMember
from penstock.client.cluster.routing import MOVING
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, UnknownServerError, UnsupportedVersion, error_of, from_code
from penstock.model import TopicPartition
from penstock.wire.messages import (
    k08_offset_commit,
    k09_offset_fetch,
    k13_leave_group,
    k47_offset_delete,
)

NAMED_TOPICS_LAST = 9  # from the next version on OffsetCommit and OffsetFetch have topic ids
MANY_GROUPS_FROM = 8  # the version of OffsetFetch that takes many groups
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
    if answer.groups:
        return _committed(answer.groups[0].error_code, answer.groups[0].topics)
    return _committed(answer.error_code, answer.topics)


def ask_committed_of(
    connection: Connection, names: Sequence[str], require_stable: bool
) -> dict[str, dict[TopicPartition, CommittedOffset] | KafkaError]:
    wire = k09_offset_fetch
    request = wire.OffsetFetchRequest(
        groups=[wire.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names],
        require_stable=require_stable,
    )
    version = min(connection.version_for(request), NAMED_TOPICS_LAST)
    if version < MANY_GROUPS_FROM:
        return {name: ask_committed(connection, name, require_stable) for name in names}
    answer = connection.request(request, wire.OffsetFetchResponse, version)
    return {each.group_id: _committed(each.error_code, each.topics) for each in answer.groups}


def _committed(
    code: int,
    topics: Sequence[
        k09_offset_fetch.OffsetFetchResponseTopic | k09_offset_fetch.OffsetFetchResponseTopics
    ],
) -> dict[TopicPartition, CommittedOffset] | KafkaError:
    if code:
        return from_code(code)
    committed: dict[TopicPartition, CommittedOffset] = {}
    for topic in topics:
        for each in topic.partitions:
            if each.error_code:
                return from_code(each.error_code)
            if each.committed_offset != NO_OFFSET:
                committed[TopicPartition(topic.name, each.partition_index)] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(committed.items()))


def ask_commit(
    connection: Connection, name: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
) -> dict[TopicPartition, KafkaError | None] | KafkaError:
    wire = k08_offset_commit
    topics: dict[str, k08_offset_commit.OffsetCommitRequestTopic] = {}
    for (topic, partition), said in offsets.items():
        named = topics.setdefault(topic, wire.OffsetCommitRequestTopic(name=topic))
        offset = said if isinstance(said, CommittedOffset) else CommittedOffset(said, -1, "")
        named.partitions.append(
            wire.OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
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
    """Return a result per partition, or the one error after which the request is sent again."""
    found: dict[TopicPartition, KafkaError | None] = {}
    for each in partitions:
        code = codes.get(each, UnknownServerError.code)
        error = from_code(code) if code else None
        if isinstance(error, MOVING):
            return error
        found[each] = error
    return found


MANY_MEMBERS_FROM = 3  # the version of LeaveGroup that takes many members, and static ones
REASON_CHARACTERS_MAX = 255
REASON = "removed by an administrator"


def ask_leave(
    connection: Connection, name: str, members: Sequence[GroupMember | str], reason: str
) -> dict[str, KafkaError | None] | KafkaError:
    wire = k13_leave_group
    said = (reason or REASON)[:REASON_CHARACTERS_MAX]
    asked = {
        _key(each): wire.MemberIdentity(
            # A static member leaves by its instance id alone: its member id may have changed.
            member_id="" if _instance_id(each) is not None else _key(each),
            group_instance_id=_instance_id(each),
            reason=said,
        )
        for each in members
    }
    if not asked:
        return {}
    request = wire.LeaveGroupRequest(group_id=name, members=list(asked.values()))
    if connection.version_for(request) < MANY_MEMBERS_FROM:
        return UnsupportedVersion(f"the server at {connection} is too old to remove members")
    answer = connection.request(request, wire.LeaveGroupResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    told = {
        each.group_instance_id or each.member_id: error_of(each.error_code)
        for each in answer.members
    }
    silent = UnknownServerError("the server did not answer for it")
    return {key: told.get(key, silent) for key in asked}


def _instance_id(member: GroupMember | str) -> str | None:
    return member if isinstance(member, str) else member.instance_id


def _key(member: GroupMember | str) -> str:
    return _instance_id(member) or (member if isinstance(member, str) else member.member_id)
