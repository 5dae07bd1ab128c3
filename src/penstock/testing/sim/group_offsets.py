"""Offsets of groups in a simulation: committed without a transaction, and asked for."""

from collections.abc import Mapping, Sequence

from penstock.model import TopicPartition
from penstock.testing.sim.group_member import PASSING
from penstock.testing.sim.script import Ask, Script, TopicFacts
from penstock.testing.sim.transactional import Member
from penstock.wire.messages import k08_offset_commit, k09_offset_fetch

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
UNSTABLE_OFFSET = 88


def offset_commit(
    version: int,
    group: str,
    offsets: Mapping[TopicPartition, int],
    topics: Mapping[str, TopicFacts],
    member: Member,
) -> Ask:
    """OffsetCommit; all its codes are in `transactional.error_codes`."""
    wanted: dict[str, k08_offset_commit.OffsetCommitRequestTopic] = {}
    for place, offset in offsets.items():
        topic = wanted.setdefault(
            place.topic,
            k08_offset_commit.OffsetCommitRequestTopic(
                name=place.topic, topic_id=topics[place.topic].topic_id
            ),
        )
        topic.partitions.append(
            k08_offset_commit.OffsetCommitRequestPartition(
                partition_index=place.partition, committed_offset=offset
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
    version: int, group: str, places: Sequence[TopicPartition], topics: Mapping[str, TopicFacts]
) -> Script[dict[TopicPartition, int]]:
    """What the group has committed, -1 for nothing; without the places of which that is not known
    yet, because a transaction is open or nobody answered. From version 8 on."""
    wanted: dict[str, k09_offset_fetch.OffsetFetchRequestTopics] = {}
    for place in places:
        topic = wanted.setdefault(
            place.topic,
            k09_offset_fetch.OffsetFetchRequestTopics(
                name=place.topic, topic_id=topics[place.topic].topic_id
            ),
        )
        topic.partition_indexes.append(place.partition)
    asked = k09_offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=list(wanted.values()))
    message = k09_offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=True)
    response = yield Ask(OFFSET_FETCH, version, message)
    found: dict[TopicPartition, int] = {}
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
            place = TopicPartition(each.name or names[each.topic_id], partition.partition_index)
            found[place] = partition.committed_offset
    return found
