"""ConsumerGroupDescribe, v0-v1: a group as it is, for people.  v1: the kind of each member."""

from collections.abc import Iterable, Mapping
from typing import Final

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.groups.consumer.group import ConsumerGroup
from penstock.coordinator.groups.consumer.member import ConsumerMember
from penstock.coordinator.groups.consumer.target import preferred_assignor
from penstock.coordinator.groups.group import CoordinatedGroup
from penstock.coordinator.groups.set_aside import SetAsideGroup
from penstock.errors import GroupIdNotFound
from penstock.wire.messages import k69_consumer_group_describe as messages
from penstock.wire.structures import NamedTopicIdPartitions

CLASSIC_MEMBER: Final = 0
CONSUMER_MEMBER: Final = 1


def describe(
    group_id: str, group: CoordinatedGroup | None, cluster: ClusterView, assignors: tuple[str, ...]
) -> messages.DescribedGroup:
    if isinstance(group, SetAsideGroup):
        rejection = group.rejection
        return messages.DescribedGroup(
            group_id=group_id, error_code=rejection.code, error_message=rejection.message
        )
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "is not a consumer group"
        return messages.DescribedGroup(
            group_id=group_id,
            error_code=GroupIdNotFound.code,
            error_message=f"Group {group_id} {what}.",
        )
    return messages.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group.members.values(), assignors),
        members=[_member(group, member, cluster) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, cluster: ClusterView) -> messages.Member:
    return messages.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        # A member has its partitions until it has given them back.
        assignment=_listed(_all_of(member), cluster),
        target_assignment=_listed(group.target_of(member.member_id), cluster),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _all_of(member: ConsumerMember) -> dict[bytes, set[int]]:
    partitions: dict[bytes, set[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic_id, each in owned.items():
            partitions.setdefault(topic_id, set()).update(each)
    return partitions


def _listed(partitions: Mapping[bytes, Iterable[int]], cluster: ClusterView) -> messages.Assignment:
    """Return partitions by topic, without deleted topics, which have no name."""
    return messages.Assignment(
        topic_partitions=[
            NamedTopicIdPartitions(
                topic_id=topic_id,
                topic_name=topic.name,
                partitions=sorted(partitions[topic_id]),
            )
            for topic_id in sorted(partitions)
            if (topic := cluster.topic_by_id(topic_id)) is not None
        ]
    )
