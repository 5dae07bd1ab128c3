"""Leads a group on when one of its members has spoken.

In this order: what the member wants now; a new epoch for the group, if that or the topics have
changed; a target for that epoch, if the last one is old enough; one step of this member towards
its target. All of it becomes one batch of records.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.group import ConsumerGroup, ResolvedRegex
from penstock.coordinator.groups.consumer.member import Member, TopicPartitions
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
    Membership,
    compute_target,
    offered_assignors,
    preferred_assignor,
    target_records,
    topic_ids,
)
from penstock.coordinator.groups.consumer.timeouts import Timeouts
from penstock.coordinator.groups.consumer.turn import Turn
from penstock.coordinator.groups.settings import GroupSettings
from penstock.coordinator.records import Record
from penstock.wire.records.group import ConsumerGroupPartitionMetadataKey


class Word(NamedTuple):
    """What a member has said."""

    before: Member  # as it was
    member: Member  # as it wants to be
    replaced_id: str | None  # the member whose place it takes, with a record already
    reported: Sequence[TopicPartitions] | None  # what it has, if it says so

    @property
    def names_changed(self) -> bool:
        return self.member.topics != self.before.topics

    @property
    def regex_changed(self) -> bool:
        return self.member.regex != self.before.regex


class Advance:
    def __init__(self, settings: GroupSettings, cluster: ClusterView, timeouts: Timeouts) -> None:
        self._cluster = cluster
        self._timeouts = timeouts
        self._regexes = Regexes(cluster, settings.regex_refresh_interval_ms)
        self._hashes = MetadataHash(cluster)
        self.assignors = offered_assignors(settings.assignors)

    def advance(self, group: ConsumerGroup, word: Word, turn: Turn) -> Member:
        """The member after all that."""
        if word.member != word.before:
            turn.write(member_record(group.group_id, word.member))
        refresh = self._regexes.is_due(group, turn.now_ms)
        regexes = self._update_regexes(group, word, turn, refresh=refresh)
        if word.member.regex and word.member.regex not in regexes:
            turn.await_resolution(group.group_id)
        after = _Later(group, word, regexes)
        epoch = self._maybe_bump(group, word, after, turn)
        goal_epoch, assignment = self._maybe_retarget(group, word, after, epoch, turn)
        changed = word.names_changed or word.regex_changed
        moved = word.member
        if changed or not moved.is_at(goal_epoch):
            subscribed = topic_ids(moved, regexes, self._cluster)
            goal = Goal(goal_epoch, assignment, subscribed, changed)
            moved = reconcile(moved, goal, group.owner, word.reported)
        if refresh:
            group.regexes_stale = False  # only now: nothing above may have been refused
        if moved is not word.member:
            turn.write(current_record(group.group_id, moved))
            if moved.classic is None:
                turn.watch_revocation(group.group_id, moved)
        return moved

    def _update_regexes(
        self, group: ConsumerGroup, word: Word, turn: Turn, *, refresh: bool
    ) -> Mapping[str, ResolvedRegex]:
        """The expressions of the group, with what this member brings and leaves."""
        if not word.regex_changed and not refresh:
            return group.regexes
        regexes = dict(group.regexes)
        if word.regex_changed:
            new, old = word.member.regex, word.before.regex
            if new and new not in regexes:
                self._regexes.check(new)
            away = {word.member.member_id, word.replaced_id}
            if old in regexes and not _others_use(group, old, away):
                del regexes[old]
                turn.write(regex_tombstone(group.group_id, old))
        if refresh:
            for regex, resolved in self._regexes.refreshed(regexes, turn.now_ms).items():
                if resolved != regexes[regex]:
                    regexes[regex] = resolved
                    turn.write(_regex_record(group, regex, resolved))
        return regexes

    def _maybe_bump(self, group: ConsumerGroup, word: Word, after: "_Later", turn: Turn) -> int:
        """The epoch of the group from now on."""
        bump = word.names_changed or _changes_topics(group, word)
        bump = bump or _others_resolved(group.regexes, after.regexes)
        bump = bump or _leaves_a_place(group, word)
        if not bump and not group.stale:
            return group.epoch
        topics = all_topics(after.membership.members.values(), after.regexes)
        metadata_hash = self._hashes.of(topics)
        if not bump and metadata_hash == group.metadata_hash:
            group.stale = False
            return group.epoch
        turn.write_all(epoch_records(group, group.epoch + 1, metadata_hash))
        return group.epoch + 1

    def _maybe_retarget(
        self, group: ConsumerGroup, word: Word, after: "_Later", epoch: int, turn: Turn
    ) -> tuple[int, Assignment]:
        """The epoch of the target, and what this member is to have in it."""
        if epoch <= group.target_epoch or not self._target_is_due(group, turn.now_ms):
            return group.target_epoch, group.target_of(word.replaced_id or word.member.member_id)
        assignor = preferred_assignor(after.membership.members.values(), self.assignors)
        target = compute_target(group, after.membership, self._cluster, assignor)
        turn.write_all(target_records(group, target, epoch, turn.now_ms))
        return epoch, target[word.member.member_id]

    def _target_is_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Targets are not computed more often than this: members tend to come in crowds."""
        if group.target_timestamp_ms == 0:
            return True
        interval_ms = self._timeouts.assignment_interval_ms(group.group_id)
        # A clock that was set back must not keep a group waiting.
        return not 0 <= now_ms - group.target_timestamp_ms < interval_ms

    # Without a word of any member

    def without(self, group: ConsumerGroup, leaving: Sequence[Member], turn: Turn) -> None:
        """Go on without these."""
        for member in leaving:
            turn.write_all(member_tombstones(group.group_id, member.member_id))
            turn.unwatch(group.group_id, member.member_id)
        away = {member.member_id for member in leaving}
        staying = [each for each in group.members.values() if each.member_id not in away]
        regexes = dict(group.regexes)
        for regex in group.regexes:
            if not _others_use(group, regex, away):
                del regexes[regex]
                turn.write(regex_tombstone(group.group_id, regex))
        metadata_hash = self._hashes.of(all_topics(staying, regexes))
        turn.write_all(epoch_records(group, group.epoch + 1, metadata_hash))

    def topics_changed(self, group: ConsumerGroup, names: Sequence[str], turn: Turn) -> None:
        """Expressions that stand for other topics now need another epoch. For the rest the next
        heartbeat sees what has become of the topics."""
        changed = self._regexes.changed_by(group, names, turn.now_ms)
        if changed:
            regexes = {**group.regexes, **changed}
            for regex, resolved in changed.items():
                turn.write(_regex_record(group, regex, resolved))
            metadata_hash = self._hashes.of(all_topics(group.members.values(), regexes))
            turn.write_all(epoch_records(group, group.epoch + 1, metadata_hash))
        elif not group.stale:
            group.stale = any(group.is_subscribed_to(name) for name in names)

    def resolve_regexes(self, group: ConsumerGroup, turn: Turn) -> None:
        """Write the topics of unresolved expressions, and another epoch if any topic matches."""
        unresolved = dict.fromkeys(group.unresolved_regexes(), ResolvedRegex(frozenset(), 0))
        if not unresolved:
            return
        found = self._regexes.refreshed(unresolved, turn.now_ms)
        for regex, resolved in found.items():
            turn.write(_regex_record(group, regex, resolved))
        regexes = {**group.regexes, **found}
        metadata_hash = self._hashes.of(all_topics(group.members.values(), regexes))
        # The hash differs, too, if the expression before this one had topics.
        if metadata_hash != group.metadata_hash or any(each.topics for each in found.values()):
            turn.write_all(epoch_records(group, group.epoch + 1, metadata_hash))

    def hash_of(self, members: Iterable[Member]) -> int:
        """Of members that know no expressions."""
        return self._hashes.of(all_topics(members, {}))


class _Later:
    """The group as it will be; most words need not know."""

    def __init__(
        self, group: ConsumerGroup, word: Word, regexes: Mapping[str, ResolvedRegex]
    ) -> None:
        self._group = group
        self._word = word
        self._membership: Membership | None = None
        self.regexes = regexes

    @property
    def membership(self) -> Membership:
        if self._membership is None:
            member_id, replaced_id = self._word.member.member_id, self._word.replaced_id
            members = dict(self._group.members)
            replaced: dict[str, str] = {}
            if replaced_id is not None:
                del members[replaced_id]
                replaced[member_id] = replaced_id
            members[member_id] = self._word.member
            self._membership = Membership(members, self.regexes, replaced)
        return self._membership


def epoch_records(group: ConsumerGroup, epoch: int, metadata_hash: int) -> Iterable[Record]:
    yield epoch_record(group.group_id, epoch, metadata_hash)
    if group.has_partition_metadata:  # older servers kept there what is now in the hash
        yield Record(ConsumerGroupPartitionMetadataKey(group_id=group.group_id))


def _regex_record(group: ConsumerGroup, regex: str, resolved: ResolvedRegex) -> Record:
    return regex_record(group.group_id, regex, resolved.topics, resolved.timestamp_ms)


def _others_use(group: ConsumerGroup, regex: str, away: set[str] | set[str | None]) -> bool:
    return any(
        member.regex == regex for member in group.members.values() if member.member_id not in away
    )


def _changes_topics(group: ConsumerGroup, word: Word) -> bool:
    """Return whether another expression of the member is a reason for another epoch. An
    unresolved expression is none: its resolution raises the epoch."""
    return word.regex_changed and (not word.member.regex or word.member.regex in group.regexes)


def _leaves_a_place(group: ConsumerGroup, word: Word) -> bool:
    """It was a member already, and takes the place of another: nobody has what it had."""
    member_id = word.member.member_id
    return word.replaced_id not in (None, member_id) and member_id in group.members


def _others_resolved(
    before: Mapping[str, ResolvedRegex], after: Mapping[str, ResolvedRegex]
) -> bool:
    """Whether an expression that was there before stands for other topics now."""
    return after is not before and any(
        regex in before and before[regex].topics != resolved.topics
        for regex, resolved in after.items()
    )
