"""Offsets of groups in a simulation: committed without a transaction, and fetched."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.model import NO_LEADER_EPOCH, TopicPartition
from penstock.testing.sim.group_member import PASSING
from penstock.testing.sim.script import Ask, Script, TopicFacts
from penstock.testing.sim.transactional import CommittingMember
from penstock.wire.messages import k08_offset_commit, k09_offset_fetch

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
UNSTABLE_OFFSET = 88


class FetchedOffset(NamedTuple):
    """An offset of a group, -1 for none, and the leader epoch that its commit named (KIP-320)."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


def offset_commit(
    version: int,
    group: str,
    offsets: Mapping[TopicPartition, int],
    topics: Mapping[str, TopicFacts],
    member: CommittingMember,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
) -> Ask:
    """Return an OffsetCommit; `transactional.error_codes` has all its codes. `leader_epochs` are
    those of the last consumed records. Versions before 6 leave them out."""
    epochs = leader_epochs or {}
    wanted: dict[str, k08_offset_commit.OffsetCommitRequestTopic] = {}
    for topic_partition, offset in offsets.items():
        topic = wanted.setdefault(
            topic_partition.topic,
            k08_offset_commit.OffsetCommitRequestTopic(
                name=topic_partition.topic, topic_id=topics[topic_partition.topic].topic_id
            ),
        )
        topic.partitions.append(
            k08_offset_commit.OffsetCommitRequestPartition(
                partition_index=topic_partition.partition,
                committed_offset=offset,
                committed_leader_epoch=epochs.get(topic_partition, NO_LEADER_EPOCH),
            )
        )
    message = k08_offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=list(wanted.values()),
    )
    return Ask(OFFSET_COMMIT, version, message, member)


def fetch_offsets(
    version: int,
    group: str,
    topic_partitions: Sequence[TopicPartition],
    topics: Mapping[str, TopicFacts],
) -> Script[dict[TopicPartition, FetchedOffset]]:
    """Return the group's committed offsets, -1 for none. Partitions with an open transaction, or
    without a response, are left out. From version 8 on."""
    wanted: dict[str, k09_offset_fetch.OffsetFetchRequestTopics] = {}
    for topic_partition in topic_partitions:
        topic = wanted.setdefault(
            topic_partition.topic,
            k09_offset_fetch.OffsetFetchRequestTopics(
                name=topic_partition.topic, topic_id=topics[topic_partition.topic].topic_id
            ),
        )
        topic.partition_indexes.append(topic_partition.partition)
    asked = k09_offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=list(wanted.values()))
    message = k09_offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
    response = yield Ask(OFFSET_FETCH, version, message)
    found: dict[TopicPartition, FetchedOffset] = {}
    if response is None:
        return found
    answer = response.groups[0]
    assert answer.error_code in (0, *PASSING), f"offsets of {group}: error {answer.error_code}"
    names = {facts.topic_id: name for name, facts in topics.items()}
    for each in answer.topics:
        for partition in each.partitions:
            if partition.error_code:
                assert partition.error_code == UNSTABLE_OFFSET, f"error {partition.error_code}"
                continue
            topic_partition = TopicPartition(
                each.name or names[each.topic_id], partition.partition_index
            )
            found[topic_partition] = FetchedOffset(
                partition.committed_offset, partition.committed_leader_epoch
            )
    return found
