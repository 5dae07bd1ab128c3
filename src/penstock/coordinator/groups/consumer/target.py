"""The target of a group: the partitions of each member in an epoch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from penstock.coordinator.cluster import ClusterView, TopicView
from penstock.coordinator.groups.consumer.assignors import ASSIGNORS
from penstock.coordinator.groups.consumer.assignors.spec import (
    Assignment,
    Subscriber,
    Subscribers,
)
from penstock.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from penstock.coordinator.groups.consumer.member import ConsumerMember
from penstock.coordinator.groups.consumer.records import target_epoch_record, target_record
from penstock.coordinator.groups.consumer.subscription import existing_topics, topics_of
from penstock.coordinator.records import CoordinatorRecord

DEFAULT_ASSIGNOR: Final = "uniform"
# Kafka's configuration knows the assignors by their classes, too.
_BY_CLASS: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


class TargetMembership(NamedTuple):
    """The members of a group as they will be, once the records written so far are in."""

    members: Mapping[str, ConsumerMember]
    regexes: Mapping[str, ResolvedRegex]
    replaced: Mapping[str, str]  # a member that replaces another: its id, and the other's


def offered_assignors(configured: Iterable[str]) -> tuple[str, ...]:
    """Return the names of known configured assignors, the default one if there is none."""
    names = (_BY_CLASS.get(each, each) for each in configured)
    return tuple(name for name in names if name in ASSIGNORS) or (DEFAULT_ASSIGNOR,)


def preferred_assignor(members: Iterable[ConsumerMember], offered: Sequence[str]) -> str:
    """Return the assignor that most members ask for. Members without a choice have no vote."""
    votes = dict.fromkeys(offered, 0)
    for member in members:
        if member.assignor in votes:
            votes[member.assignor] += 1
    return max(votes, key=votes.__getitem__)  # the first of those with the most


def compute_target(
    group: ConsumerGroup, after: TargetMembership, cluster: ClusterView, assignor: str
) -> dict[str, Assignment]:
    topics = _Topics(cluster, after.regexes)
    members = []
    for member_id in sorted(after.members):  # however they came, the result is the same
        member = after.members[member_id]
        so_far = group.target_of(after.replaced.get(member_id, member_id))
        wanted = topics.ids(member)
        members.append(Subscriber(member_id, member.instance_id, wanted, so_far, member.rack_id))
    partitions = {topic_id: view.partitions for topic_id, view in topics.views.items()}
    racks = {topic_id: view.racks for topic_id, view in topics.views.items() if any(view.racks)}
    return ASSIGNORS[assignor](Subscribers(members, partitions, racks))


def target_records(
    group: ConsumerGroup, target: Mapping[str, Assignment], epoch: int, now_ms: int
) -> Iterable[CoordinatorRecord]:
    """Yield the records of changed targets, then the one of the epoch."""
    for member_id, assignment in target.items():
        if assignment != group.target.get(member_id):
            yield target_record(group.group_id, member_id, assignment)
    yield target_epoch_record(group.group_id, epoch, now_ms)


class _Topics:
    """Names to ids, once for each subscription: members of a group are mostly alike."""

    def __init__(self, cluster: ClusterView, regexes: Mapping[str, ResolvedRegex]) -> None:
        self.views: dict[bytes, TopicView] = {}
        self._cluster = cluster
        self._regexes = regexes
        self._known: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}

    def ids(self, member: ConsumerMember) -> frozenset[bytes]:
        subscription = member.topics, member.regex
        known = self._known.get(subscription)
        if known is None:
            known = topic_ids(member, self._regexes, self._cluster, self.views)
            self._known[subscription] = known
        return known


def topic_ids(
    member: ConsumerMember,
    regexes: Mapping[str, ResolvedRegex],
    cluster: ClusterView,
    seen: dict[bytes, TopicView] | None = None,
) -> frozenset[bytes]:
    """Return the ids of existing topics that a member is subscribed to."""
    views = existing_topics(topics_of(member, regexes), cluster)
    if seen is not None:
        seen.update((view.topic_id, view) for view in views)
    return frozenset(view.topic_id for view in views)
