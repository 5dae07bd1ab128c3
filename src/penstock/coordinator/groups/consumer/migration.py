"""Groups that change between the classic and the consumer protocol.

An empty group changes whenever somebody of the other protocol comes. A group with members changes
while they work, if the policy says so: it becomes a consumer group with the first member of the
consumer protocol and a classic one when the last of those leaves. Members, assignments and the
generation, which is the epoch, are kept; so is that of an empty group (Kafka begins anew there),
for a member may come again under its id: a late commit of its last life must not be in the epoch
that it has now.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import Call
from penstock.coordinator.groups.classic import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
)
from penstock.coordinator.groups.classic.joining import Joining
from penstock.coordinator.groups.classic.rebalance import prepare
from penstock.coordinator.groups.classic.replies import join_refused, sync_refused
from penstock.coordinator.groups.classic.storing import record_of
from penstock.coordinator.groups.classic.turn import Turn as ClassicTurn
from penstock.coordinator.groups.classic.turn import timers_of
from penstock.coordinator.groups.consumer.advance import Advance
from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.embedded import (
    assignment_for,
    assignment_in,
    subscription_in,
)
from penstock.coordinator.groups.consumer.group import (
    CONSUMER_PROTOCOL,
    FIRST_EPOCH,
    ConsumerGroup,
)
from penstock.coordinator.groups.consumer.member import (
    ClassicSide,
    Member,
    without_epochs,
)
from penstock.coordinator.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from penstock.coordinator.groups.consumer.replay import apply
from penstock.coordinator.groups.consumer.turn import Turn
from penstock.coordinator.groups.group import GroupState
from penstock.coordinator.groups.settings import GroupSettings
from penstock.coordinator.records import Record
from penstock.effects import Answer, Outcome
from penstock.errors import GroupIdNotFound, KafkaError, RebalanceInProgress
from penstock.wire.primitives import Malformed

UPGRADE_POLICIES = ("upgrade", "bidirectional")
DOWNGRADE_POLICIES = ("downgrade", "bidirectional")


class Migration:
    def __init__(
        self,
        state: GroupState,
        settings: GroupSettings,
        cluster: ClusterView,
        advance: Advance,
    ) -> None:
        self._state = state
        self._settings = settings
        self._cluster = cluster
        self._advance = advance
        self._joining = Joining(state, settings)
        self._tickets = count()

    # To the consumer protocol

    def begin_upgrade(self, classic: ClassicGroup, turn: Turn) -> ConsumerGroup:
        """The group as it will be. Nothing is said to anybody before `end_upgrade`."""
        if classic.is_empty:
            turn.write_all(classic.tombstones())
            group = ConsumerGroup(classic.group_id, max(classic.generation, FIRST_EPOCH))
            if group.epoch > FIRST_EPOCH:
                # A member without topics raises no epoch, and the log must hold this one.
                turn.write(epoch_record(group.group_id, group.epoch, group.metadata_hash))
            return group
        self._check_upgrade(classic)
        try:
            members = [self._upgraded(classic, each) for each in classic.members.values()]
        except Malformed as error:
            raise _no_upgrade(
                classic, f"the embedded consumer protocol is malformed. A member sent: {error}."
            ) from None
        group = ConsumerGroup(classic.group_id)
        records = list(self._upgrade_records(group.group_id, classic.generation, members))
        for record in records:
            apply(group, record)
        turn.write_all(classic.tombstones())
        turn.write_all(records)
        return group

    def end_upgrade(self, classic: ClassicGroup, group: ConsumerGroup, turn: Turn) -> None:
        """Whoever waits in the classic group is told to rejoin; each is watched here now. Until
        the tombstone of the classic group is in the log, nothing of it is forgotten."""
        for member_id, each in classic.joining.items():
            told = join_refused(RebalanceInProgress, each.version, member_id)
            turn.answer_all([Answer(each.ticket, told, waits_on=True)])
        for each in classic.syncing.values():
            turn.answer_all([Answer(each.ticket, sync_refused(RebalanceInProgress), waits_on=True)])
        turn.add_timers(timers_of(classic))
        for member in group.members.values():
            if member.classic is not None:
                turn.watch(group.group_id, member.member_id, member.classic.session_timeout_ms)

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        if self._settings.migration_policy not in UPGRADE_POLICIES:
            raise _no_upgrade(
                classic, "online upgrade is disabled. group.consumer.migration.policy says so."
            )
        if classic.protocol_type != CONSUMER_PROTOCOL:
            raise _no_upgrade(classic, "the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._settings.consumer_size_max:
            raise _no_upgrade(classic, "the group size exceeds the consumer group maximum size.")

    def _upgraded(self, classic: ClassicGroup, member: ClassicMember) -> Member:
        """At rest with what it was assigned last, whatever the group was about to do."""
        # Who joins while the group rebalances need not know what its last generation used.
        offered = [protocol.name for protocol in member.protocols]
        chosen = classic.protocol_name if classic.protocol_name in offered else offered[0]
        subscription = subscription_in(member.metadata(chosen))
        assignment = assignment_in(member.assignment)
        if assignment.user_data:
            raise _no_upgrade(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade.",
            )
        epoch = max(classic.generation, FIRST_EPOCH)
        return Member(
            member_id=member.member_id,
            epoch=epoch,
            previous_epoch=epoch,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            topics=frozenset(subscription.topics),
            assigned={
                topic.topic_id: dict.fromkeys(each.partitions, epoch)
                for each in assignment.assigned_partitions
                if (topic := self._cluster.topic(each.topic)) is not None
            },
            classic=ClassicSide(member.session_timeout_ms, member.protocols),
        )

    def _upgrade_records(
        self, group_id: str, generation: int, members: Sequence[Member]
    ) -> Iterable[Record]:
        epoch = max(generation, FIRST_EPOCH)
        for member in members:
            yield member_record(group_id, member)
        yield epoch_record(group_id, epoch, self._advance.hash_of(members))
        for member in members:
            yield target_record(group_id, member.member_id, without_epochs(member.assigned))
        # Without a time: nothing holds up the target with the new member.
        yield target_epoch_record(group_id, epoch, 0)
        for member in members:
            yield current_record(group_id, member)

    # To the classic protocol

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[str]) -> bool:
        """Whether only classic members are left when these have gone."""
        staying = [each for each in group.members.values() if each.member_id not in leaving]
        return (
            bool(staying)
            and all(each.classic is not None for each in staying)
            and self._settings.migration_policy in DOWNGRADE_POLICIES
            and len(staying) <= self._settings.size_max
        )

    def may_become_classic(self, group: ConsumerGroup, replaced: Member) -> bool:
        """Whether only classic members are left when this one has come back as one."""
        others = [each for each in group.members.values() if each is not replaced]
        return (
            replaced.classic is None
            and all(each.classic is not None for each in others)
            and self._settings.migration_policy in DOWNGRADE_POLICIES
            and len(group.members) <= self._settings.size_max
        )

    def downgrade(self, group: ConsumerGroup, leaving: Collection[str], turn: Turn) -> None:
        """The rest go on as a classic group, which begins with a rebalance."""
        staying = [each for each in group.members.values() if each.member_id not in leaving]
        targets = {each.member_id: group.target_of(each.member_id) for each in staying}
        self._become_classic(group, staying, targets, turn, rebalance=True)

    def downgrade_with(
        self, group: ConsumerGroup, joining: Member, turn: Turn, *, rebalance: bool
    ) -> None:
        """The last member of the consumer protocol was a static one, and has come back as a
        classic member: it keeps what it had."""
        replaced = group.static_member(joining.instance_id)
        assert replaced is not None, "a static member takes a place that is there"
        staying = [
            joining if each.member_id == replaced.member_id else each
            for each in group.members.values()
        ]
        targets = {each.member_id: group.target_of(each.member_id) for each in staying}
        targets[joining.member_id] = group.target_of(replaced.member_id)
        turn.unwatch(group.group_id, replaced.member_id)
        self._become_classic(group, staying, targets, turn, rebalance=rebalance)

    def _become_classic(
        self,
        group: ConsumerGroup,
        staying: Sequence[Member],
        targets: dict[str, Assignment],
        turn: Turn,
        *,
        rebalance: bool,
    ) -> None:
        classic = ClassicGroup(group.group_id, turn.now_ms)
        classic.state = ClassicState.STABLE
        classic.generation = group.epoch
        classic.protocol_type = CONSUMER_PROTOCOL
        for member in staying:
            classic.add(_downgraded(member))
        classic.protocol_name = classic.choose_protocol()
        classic.learn_topics()
        for each in classic.members.values():
            metadata = each.metadata(classic.protocol_name)
            each.assignment = assignment_for(metadata, targets[each.member_id], self._cluster)
        turn.write_all(group.tombstones())
        for member_id in group.members:
            turn.unwatch(group.group_id, member_id)
        # From here on the classic group is the one in memory: its record, when it is replayed,
        # tells it nothing new.
        self._state.groups[group.group_id] = classic
        turn.ended = group
        follow_up = self._classic_turn(turn)
        follow_up.write(classic, record_of(classic))
        for each in classic.members.values():
            follow_up.watch(classic, each)
        if rebalance:
            prepare(classic, follow_up, self._settings)
        _add(turn, follow_up.outcome())

    def join_empty(self, group: ConsumerGroup, call: Call, turn: Turn) -> Outcome:
        """A classic member comes to an empty consumer group, which has ended by that."""
        groups, group_id = self._state.groups, group.group_id
        del groups[group_id]
        follow_up = self._classic_turn(turn)
        self._joining.join(call, follow_up, group.epoch)
        outcome = follow_up.outcome()
        if group_id not in groups:
            groups[group_id] = group  # whoever came was refused
            return outcome
        turn.ended = group
        turn.write_all(group.tombstones())
        _add(turn, outcome)
        return replace(turn.outcome(outcome.reply), parked=outcome.parked)

    def _classic_turn(self, turn: Turn) -> ClassicTurn:
        return ClassicTurn(turn.now_ms, ("migrated", next(self._tickets)))


def _no_upgrade(classic: ClassicGroup, why: str) -> KafkaError:
    return GroupIdNotFound(
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    )


def _downgraded(member: Member) -> ClassicMember:
    assert member.classic is not None, "only classic members go on"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )


def _add(turn: Turn, outcome: Outcome) -> None:
    turn.write_all(outcome.records)
    turn.add_timers(outcome.timers)
    turn.answer_all(outcome.answers)
