"""Groups that change between the classic and the consumer protocol.

An empty group changes with the first member of the other protocol. A group with members migrates
online, if the policy allows. The first member of the consumer protocol makes a consumer group. The
leave of the last one makes a classic group. Members, assignments and the generation, which is the
epoch, are kept. An empty group keeps its generation too, while Kafka begins at 0. A member may
rejoin under its old id, and its present epoch must differ from that of late commits.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count

from penstock.coordinator.cluster import ClusterView
from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    cancel_timers,
)
from penstock.coordinator.groups.classic.generation import ClassicGeneration, NextGeneration
from penstock.coordinator.groups.classic.group_record import record_of
from penstock.coordinator.groups.classic.join_group import ClassicJoin
from penstock.coordinator.groups.classic.outcome_builder import ClassicOutcomeBuilder
from penstock.coordinator.groups.classic.rebalance import prepare
from penstock.coordinator.groups.classic.replies import join_error, sync_error
from penstock.coordinator.groups.consumer.assignors.spec import Assignment
from penstock.coordinator.groups.consumer.consumer_protocol import (
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
    ConsumerMember,
    without_epochs,
)
from penstock.coordinator.groups.consumer.member_update import MemberUpdater
from penstock.coordinator.groups.consumer.outcome_builder import ConsumerOutcomeBuilder
from penstock.coordinator.groups.consumer.records import (
    current_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from penstock.coordinator.groups.consumer.replay import apply
from penstock.coordinator.groups.group import GroupCoordinatorState
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import Outcome, TicketAnswer
from penstock.errors import GroupIdNotFound, KafkaError, RebalanceInProgress
from penstock.wire.primitives import Malformed

UPGRADE_POLICIES = ("upgrade", "bidirectional")
UNKNOWN_HASH = 0
DOWNGRADE_POLICIES = ("downgrade", "bidirectional")


class Migration:
    def __init__(
        self,
        state: GroupCoordinatorState,
        settings: GroupSettings,
        cluster: ClusterView,
        updater: MemberUpdater,
    ) -> None:
        self._state = state
        self._settings = settings
        self._cluster = cluster
        self._updater = updater
        self._join = ClassicJoin(state, settings)
        self._tickets = count()

    # To the consumer protocol

    def begin_upgrade(
        self, classic: ClassicGroup, builder: ConsumerOutcomeBuilder
    ) -> ConsumerGroup:
        """Return the consumer group to be. `end_upgrade` answers the requests that wait."""
        if classic.is_empty:
            builder.write_all(classic.tombstones())
            group = ConsumerGroup(classic.group_id, max(classic.generation, FIRST_EPOCH))
            if group.epoch > FIRST_EPOCH:
                # A member without topics raises no epoch, but the log has to hold this one.
                builder.write(epoch_record(group.group_id, group.epoch, group.metadata_hash))
            return group
        self._check_upgrade(classic)
        try:
            members = [self._upgraded(classic, each) for each in classic.members.values()]
        except Malformed as error:
            raise _no_upgrade(
                classic, f"the embedded consumer protocol is malformed. A member sent: {error}."
            ) from None
        group = ConsumerGroup(classic.group_id)
        # A group that rebalances has no assignment for its present members. The hash of no topics
        # differs, so this heartbeat assigns all partitions, also if its member changes nothing.
        is_stable = classic.state is ClassicState.STABLE
        metadata_hash = self._updater.hash_of(members) if is_stable else UNKNOWN_HASH
        records = list(
            self._upgrade_records(group.group_id, classic.generation, members, metadata_hash)
        )
        for record in records:
            apply(group, record)
        group.stale = not is_stable
        builder.write_all(classic.tombstones())
        builder.write_all(records)
        return group

    def end_upgrade(
        self, classic: ClassicGroup, group: ConsumerGroup, builder: ConsumerOutcomeBuilder
    ) -> None:
        """Let members that wait in the classic group rejoin, and watch their sessions here.

        The classic group stays as it is until its tombstone is replayed.
        """
        for member_id, each in classic.joining.items():
            reply = join_error(RebalanceInProgress, each.version, member_id)
            builder.answer_all([TicketAnswer(each.ticket, reply, waits_on=True)])
        for each in classic.syncing.values():
            builder.answer_all(
                [TicketAnswer(each.ticket, sync_error(RebalanceInProgress), waits_on=True)]
            )
        builder.add_timers(cancel_timers(classic))
        for member in group.members.values():
            if member.classic is not None:
                builder.watch(group.group_id, member.member_id, member.classic.session_timeout_ms)

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        if self._settings.migration_policy not in UPGRADE_POLICIES:
            raise _no_upgrade(
                classic, "online upgrade is disabled. group.consumer.migration.policy says so."
            )
        if classic.protocol_type != CONSUMER_PROTOCOL:
            raise _no_upgrade(classic, "the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._settings.consumer_size_max:
            raise _no_upgrade(classic, "the group size exceeds the consumer group maximum size.")

    def _upgraded(self, classic: ClassicGroup, member: ClassicMember) -> ConsumerMember:
        """Return the member with its last assignment, in any state of the group."""
        # A member that joins during a rebalance need not support the protocol before it.
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
        return ConsumerMember(
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
        self,
        group_id: str,
        generation: int,
        members: Sequence[ConsumerMember],
        metadata_hash: int,
    ) -> Iterable[CoordinatorRecord]:
        epoch = max(generation, FIRST_EPOCH)
        for member in members:
            yield member_record(group_id, member)
        yield epoch_record(group_id, epoch, metadata_hash)
        for member in members:
            yield target_record(group_id, member.member_id, without_epochs(member.assigned))
        # Without a time: the assignment interval must not delay the target with the new member.
        yield target_epoch_record(group_id, epoch, 0)
        for member in members:
            yield current_record(group_id, member)

    # To the classic protocol

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[str]) -> bool:
        """Return whether only classic members are left after these leave."""
        staying = [each for each in group.members.values() if each.member_id not in leaving]
        return (
            bool(staying)
            and all(each.classic is not None for each in staying)
            and self._settings.migration_policy in DOWNGRADE_POLICIES
            and len(staying) <= self._settings.size_max
        )

    def may_become_classic(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Return whether only classic members are left after this one returns as one."""
        others = [each for each in group.members.values() if each is not replaced]
        return (
            replaced.classic is None
            and all(each.classic is not None for each in others)
            and self._settings.migration_policy in DOWNGRADE_POLICIES
            and len(group.members) <= self._settings.size_max
        )

    def downgrade(
        self, group: ConsumerGroup, leaving: Collection[str], builder: ConsumerOutcomeBuilder
    ) -> None:
        """Make the other members a classic group, which begins with a rebalance."""
        staying = [each for each in group.members.values() if each.member_id not in leaving]
        targets = {each.member_id: group.target_of(each.member_id) for each in staying}
        self._become_classic(group, staying, targets, builder, rebalance=True)

    def downgrade_with(
        self,
        group: ConsumerGroup,
        joining: ConsumerMember,
        builder: ConsumerOutcomeBuilder,
        *,
        rebalance: bool,
    ) -> None:
        """Downgrade because the last member of the consumer protocol has returned as a classic
        member. That static member keeps its assignment."""
        replaced = group.static_member(joining.instance_id)
        assert replaced is not None, "a static member takes a place that is there"
        staying = [
            joining if each.member_id == replaced.member_id else each
            for each in group.members.values()
        ]
        targets = {each.member_id: group.target_of(each.member_id) for each in staying}
        targets[joining.member_id] = group.target_of(replaced.member_id)
        builder.unwatch(group.group_id, replaced.member_id)
        self._become_classic(group, staying, targets, builder, rebalance=rebalance)

    def _become_classic(
        self,
        group: ConsumerGroup,
        staying: Sequence[ConsumerMember],
        targets: dict[str, Assignment],
        builder: ConsumerOutcomeBuilder,
        *,
        rebalance: bool,
    ) -> None:
        generation = self._downgraded(group.epoch, staying, targets, builder.now_ms)
        builder.write_all(group.tombstones())
        for member_id in group.members:
            builder.unwatch(group.group_id, member_id)
        classic = self._state.unborn = ClassicGroup(group.group_id)
        classic.next = NextGeneration(generation)
        follow_up = self._classic_builder(builder)
        # The targets leave out the partitions of members that left: if this coordinator fails
        # before the rebalance ends, the next one has to begin it again.
        follow_up.write(classic, record_of(group.group_id, generation, is_led=not rebalance))
        for each in generation.members.values():
            follow_up.watch(classic, each)
        if rebalance:
            prepare(classic, follow_up, self._settings)
        _add(builder, follow_up.outcome())

    def _downgraded(
        self,
        epoch: int,
        staying: Sequence[ConsumerMember],
        targets: dict[str, Assignment],
        now_ms: int,
    ) -> ClassicGeneration:
        members = [_downgraded(each) for each in staying]
        unassigned = ClassicGeneration(epoch, CONSUMER_PROTOCOL, members=members)
        protocol_name = unassigned.choose_protocol()
        assigned = [
            replace(
                each,
                assignment=assignment_for(
                    each.metadata(protocol_name), targets[each.member_id], self._cluster
                ),
            )
            for each in members
        ]
        return ClassicGeneration(
            epoch, CONSUMER_PROTOCOL, protocol_name, members=assigned, since_ms=now_ms
        )

    def join_empty(
        self, group: ConsumerGroup, call: GroupRequest, builder: ConsumerOutcomeBuilder
    ) -> Outcome:
        """Let a classic member join an empty consumer group, which becomes a classic one."""
        follow_up = self._classic_builder(builder)
        self._join.join(None, call, follow_up, group.epoch)
        outcome = follow_up.outcome()
        if not outcome.records:
            return outcome  # the join was rejected
        builder.write_all(group.tombstones())
        _add(builder, outcome)
        return replace(builder.outcome(outcome.reply), parked=outcome.parked)

    def _classic_builder(self, builder: ConsumerOutcomeBuilder) -> ClassicOutcomeBuilder:
        return ClassicOutcomeBuilder(builder.now_ms, ("migrated", next(self._tickets)))


def _no_upgrade(classic: ClassicGroup, why: str) -> KafkaError:
    return GroupIdNotFound(
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}"
    )


def _downgraded(member: ConsumerMember) -> ClassicMember:
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


def _add(builder: ConsumerOutcomeBuilder, outcome: Outcome) -> None:
    builder.write_all(outcome.records)
    builder.add_timers(outcome.timers)
    builder.answer_all(outcome.answers)
