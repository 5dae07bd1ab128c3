"""Answers to OffsetFetch, one group at a time.

A group, topic or partition without a commit has the offset -1 and no error. With `require_stable`
a partition for which an open transaction holds an offset gets UNSTABLE_OFFSET_COMMIT, and the
client asks again.
"""

from typing import Final

from penstock.coordinator.groups.group import GroupCoordinatorState
from penstock.coordinator.groups.offset_store import (
    LEADER_EPOCH,
    METADATA,
    OFFSET,
    TOPIC_ID,
    Stored,
)
from penstock.errors import GroupIdNotFound, KafkaError, UnstableOffsetCommit
from penstock.model import NO_LEADER_EPOCH, ZERO_ID
from penstock.wire.messages.k09_offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET: Final = -1


def group_offsets(
    state: GroupCoordinatorState, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return the offsets that a group asks for; all its offsets if the request has no topics."""
    answer = OffsetFetchResponseGroup(group_id=asked.group_id)
    group = state.groups.get(asked.group_id)
    if group is not None:
        try:
            group.check_fetch(asked.member_id, asked.member_epoch)
        except GroupIdNotFound:
            group = None
        except KafkaError as error:
            answer.error_code = error.code
            return answer
    store = state.offsets
    committed = {} if group is None else store.of_group(asked.group_id)
    unstable = require_stable and store.has_pending(asked.group_id)
    wanted: list[tuple[str, bytes, list[int]]]
    if asked.topics is None:
        wanted = [(name, ZERO_ID, list(offsets)) for name, offsets in committed.items()]
    else:
        wanted = [(each.name, each.topic_id, each.partition_indexes) for each in asked.topics]
    for name, topic_id, partitions in wanted:
        offsets = committed.get(name, {})
        answer.topics.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=topic_id,
                partitions=[
                    _unstable(partition)
                    if unstable and store.is_pending(asked.group_id, name, partition)
                    else _tell(partition, offsets.get(partition), topic_id)
                    for partition in partitions
                ],
            )
        )
    return answer


def _tell(partition: int, stored: Stored | None, topic_id: bytes) -> OffsetFetchResponsePartitions:
    if stored is None or not _is_same(stored[TOPIC_ID], topic_id):
        return OffsetFetchResponsePartitions(partition_index=partition, committed_offset=NO_OFFSET)
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=stored[OFFSET],
        committed_leader_epoch=stored[LEADER_EPOCH],
        metadata=stored[METADATA],
    )


def _is_same(committed_id: bytes, asked_id: bytes) -> bool:
    """Return whether an offset is of the requested topic. Old commits and old clients have no ids:
    the name decides for them."""
    return committed_id == asked_id or ZERO_ID in (committed_id, asked_id)


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        error_code=UnstableOffsetCommit.code,
    )
