"""Updates a group after the request of one of its members.

First the member's own fields change. If its subscription or the topics have changed, the group gets
a new epoch. If the last target is old enough, a target for that epoch is made. Last, this member
goes one step towards its target. All records become one batch.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from penstock.coordinator.groups.consumer.member import ConsumerMember, ReportedPartitions
from penstock.coordinator.groups.consumer.outcome_builder import ConsumerOutcomeBuilder
from penstock.coordinator.groups.consumer.reconcile import Goal, reconcile
from penstock.coordinator.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    member_tombstones,
    regex_record,
    regex_tombstone,
)
from penstock.coordinator.groups.consumer.regexes import Regexes
from penstock.coordinator.groups.consumer.subscription import MetadataHash, all_topics
from penstock.coordinator.groups.consumer.target import (
    TargetMembership,
    compute_target,
    offered_assignors,
    preferred_assignor,
    target_records,
    topic_ids,
)
from penstock.coordinator.groups.consumer.timeouts import Timeouts
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.records import CoordinatorRecord
from penstock.wire.records.group import ConsumerGroupPartitionMetadataKey


class MemberUpdate(NamedTuple):
    """A member before and after its request."""

    before: ConsumerMember
    member: ConsumerMember
    replaced_id: str | None  # the member that it replaces, by records written already
    reported: Sequence[ReportedPartitions] | None  # partitions that it owns, if reported

    @property
    def names_changed(self) -> bool:
        return self.member.topics != self.before.topics

    @property
    def regex_changed(self) -> bool:
        return self.member.regex != self.before.regex


class MemberUpdater:
    def __init__(self, settings: GroupSettings, cluster: ClusterView, timeouts: Timeouts) -> None:
        self._cluster = cluster
        self._timeouts = timeouts
        self._regexes = Regexes(cluster, settings.regex_refresh_interval_ms)
        self._hashes = MetadataHash(cluster)
        self.assignors = offered_assignors(settings.assignors)

    def update(
        self, group: ConsumerGroup, update: MemberUpdate, builder: ConsumerOutcomeBuilder
    ) -> ConsumerMember:
        """Return the member after its step."""
        if update.member != update.before:
            builder.write(member_record(group.group_id, update.member))
        refresh = self._regexes.is_due(group, builder.now_ms)
        regexes = self._update_regexes(group, update, builder, refresh=refresh)
        if update.member.regex and update.member.regex not in regexes:
            builder.await_resolution(group.group_id, may_describe=group.may_describe)
        after = _GroupAfter(group, update, regexes)
        epoch = self._maybe_bump(group, update, after, builder)
        goal_epoch, assignment = self._maybe_retarget(group, update, after, epoch, builder)
        changed = update.names_changed or update.regex_changed
        moved = update.member
        if changed or not moved.is_at(goal_epoch):
            subscribed = topic_ids(moved, regexes, self._cluster)
            goal = Goal(goal_epoch, assignment, subscribed, changed)
            moved = reconcile(moved, goal, group.owner, update.reported)
        if refresh:
            group.regexes_stale = False  # after all that may raise
        if moved is not update.member:
            builder.write(current_record(group.group_id, moved))
            if moved.classic is None:
                builder.watch_revocation(group.group_id, moved)
        return moved

    def _update_regexes(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        builder: ConsumerOutcomeBuilder,
        *,
        refresh: bool,
    ) -> Mapping[str, ResolvedRegex]:
        """Return the expressions of the group after this update."""
        if not update.regex_changed and not refresh:
            return group.regexes
        regexes = dict(group.regexes)
        if update.regex_changed:
            new, old = update.member.regex, update.before.regex
            if new and new not in regexes:
                self._regexes.check(new)
            away = {update.member.member_id, update.replaced_id}
            if old in regexes and not _others_use(group, old, away):
                del regexes[old]
                builder.write(regex_tombstone(group.group_id, old))
        if refresh:
            for regex, resolved in self._regexes.refreshed(group, regexes, builder.now_ms).items():
                if resolved != regexes[regex]:
                    regexes[regex] = resolved
                    builder.write(_regex_record(group, regex, resolved))
        return regexes

    def _maybe_bump(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        after: "_GroupAfter",
        builder: ConsumerOutcomeBuilder,
    ) -> int:
        """Return the epoch of the group after this update."""
        bump = update.names_changed or _changes_topics(group, update)
        bump = bump or _others_resolved(group.regexes, after.regexes)
        bump = bump or _replaces_another(group, update)
        if not bump and not group.stale:
            return group.epoch
        topics = all_topics(after.membership.members.values(), after.regexes, self._cluster)
        metadata_hash = self._hashes.of(topics)
        if not bump and metadata_hash == group.metadata_hash:
            group.stale = False
            return group.epoch
        builder.write_all(epoch_records(group, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _maybe_retarget(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        after: "_GroupAfter",
        epoch: int,
        builder: ConsumerOutcomeBuilder,
    ) -> tuple[int, Assignment]:
        """Return the epoch of the target, and the assignment of this member in it."""
        if epoch <= group.target_epoch or not self._target_is_due(group, builder.now_ms):
            return group.target_epoch, group.target_of(
                update.replaced_id or update.member.member_id
            )
        assignor = preferred_assignor(after.membership.members.values(), self.assignors)
        target = compute_target(group, after.membership, self._cluster, assignor)
        builder.write_all(target_records(group, target, epoch, builder.now_ms))
        return epoch, target[update.member.member_id]

    def _target_is_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Return whether the assignment interval is over: members tend to join in crowds."""
        if group.target_timestamp_ms == 0:
            return True
        interval_ms = self._timeouts.assignment_interval_ms(group.group_id)
        # A clock that was set back must not keep a group waiting.
        return not 0 <= now_ms - group.target_timestamp_ms < interval_ms

    # Without a request of a member

    def without(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerMember],
        builder: ConsumerOutcomeBuilder,
    ) -> None:
        """Remove these members."""
        for member in leaving:
            builder.write_all(member_tombstones(group.group_id, member.member_id))
            builder.unwatch(group.group_id, member.member_id)
        away = {member.member_id for member in leaving}
        staying = [each for each in group.members.values() if each.member_id not in away]
        regexes = dict(group.regexes)
        for regex in group.regexes:
            if not _others_use(group, regex, away):
                del regexes[regex]
                builder.write(regex_tombstone(group.group_id, regex))
        metadata_hash = self._hashes.of(all_topics(staying, regexes, self._cluster))
        builder.write_all(epoch_records(group, group.epoch + 1, metadata_hash))

    def topics_changed(
        self, group: ConsumerGroup, names: Sequence[str], builder: ConsumerOutcomeBuilder
    ) -> None:
        """Raise the epoch if an expression matches other topics now. The next heartbeat looks at
        the other subscriptions."""
        changed = self._regexes.changed_by(group, names, builder.now_ms)
        if changed:
            regexes = {**group.regexes, **changed}
            for regex, resolved in changed.items():
                builder.write(_regex_record(group, regex, resolved))
            metadata_hash = self._hashes.of(
                all_topics(group.members.values(), regexes, self._cluster)
            )
            builder.write_all(epoch_records(group, group.epoch + 1, metadata_hash))
        elif not group.stale:
            group.stale = any(group.is_subscribed_to(name) for name in names)

    def resolve_regexes(self, group: ConsumerGroup, builder: ConsumerOutcomeBuilder) -> None:
        """Write the topics of unresolved expressions, and another epoch if any topic matches."""
        unresolved = dict.fromkeys(group.unresolved_regexes(), ResolvedRegex(frozenset(), 0))
        if not unresolved:
            return
        found = self._regexes.refreshed(group, unresolved, builder.now_ms)
        for regex, resolved in found.items():
            builder.write(_regex_record(group, regex, resolved))
        regexes = {**group.regexes, **found}
        metadata_hash = self._hashes.of(all_topics(group.members.values(), regexes, self._cluster))
        # The hash differs, too, if the expression before this one had topics.
        if metadata_hash != group.metadata_hash or any(each.topics for each in found.values()):
            builder.write_all(epoch_records(group, group.epoch + 1, metadata_hash))

    def hash_of(self, members: Iterable[ConsumerMember]) -> int:
        """Return the hash of the topics of members without expressions."""
        return self._hashes.of(all_topics(members, {}, self._cluster))


class _GroupAfter:
    """The group after the update, computed when needed."""

    def __init__(
        self, group: ConsumerGroup, update: MemberUpdate, regexes: Mapping[str, ResolvedRegex]
    ) -> None:
        self._group = group
        self._word = update
        self._membership: TargetMembership | None = None
        self.regexes = regexes

    @property
    def membership(self) -> TargetMembership:
        if self._membership is None:
            member_id, replaced_id = self._word.member.member_id, self._word.replaced_id
            members = dict(self._group.members)
            replaced: dict[str, str] = {}
            if replaced_id is not None:
                del members[replaced_id]
                replaced[member_id] = replaced_id
            members[member_id] = self._word.member
            self._membership = TargetMembership(members, self.regexes, replaced)
        return self._membership


def epoch_records(
    group: ConsumerGroup, epoch: int, metadata_hash: int
) -> Iterable[CoordinatorRecord]:
    yield epoch_record(group.group_id, epoch, metadata_hash)
    if group.has_partition_metadata:  # a record of older servers; the hash replaces it
        yield CoordinatorRecord(ConsumerGroupPartitionMetadataKey(group_id=group.group_id))


def _regex_record(group: ConsumerGroup, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    return regex_record(group.group_id, regex, resolved.topics, resolved.timestamp_ms)


def _others_use(group: ConsumerGroup, regex: str, away: set[str] | set[str | None]) -> bool:
    return any(
        member.regex == regex for member in group.members.values() if member.member_id not in away
    )


def _changes_topics(group: ConsumerGroup, update: MemberUpdate) -> bool:
    """Return whether the member's new expression raises the epoch. The resolution of an
    unresolved one does so later."""
    return update.regex_changed and (
        not update.member.regex or update.member.regex in group.regexes
    )


def _replaces_another(group: ConsumerGroup, update: MemberUpdate) -> bool:
    """Return whether a present member replaces another one."""
    member_id = update.member.member_id
    return update.replaced_id not in (None, member_id) and member_id in group.members


def _others_resolved(
    before: Mapping[str, ResolvedRegex], after: Mapping[str, ResolvedRegex]
) -> bool:
    """Return whether a known expression matches other topics now."""
    return after is not before and any(
        regex in before and before[regex].topics != resolved.topics
        for regex, resolved in after.items()
    )
