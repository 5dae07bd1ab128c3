"""LeaveGroup, v0-v5, for classic groups.

v3: many members in one request, static ones by their instance id alone; each has its own error.
"""

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic.generation import ClassicState
from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.coordinator.groups.classic.outcome_builder import ClassicOutcomeBuilder
from penstock.coordinator.groups.classic.rebalance import (
    maybe_complete,
    prepare,
    remove,
    remove_pending,
)
from penstock.coordinator.groups.classic.replies import NO_MEMBER_ID
from penstock.coordinator.groups.group_settings import GroupSettings
from penstock.errors import NONE, KafkaError, UnknownMemberId
from penstock.wire.messages.k13_leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

MANY_FROM = 3


def leave(
    group: ClassicGroup | None,
    call: GroupRequest,
    builder: ClassicOutcomeBuilder,
    settings: GroupSettings,
) -> LeaveGroupResponse:
    message: LeaveGroupRequest = call.message
    leaving = message.members
    if call.version < MANY_FROM:
        leaving = [MemberIdentity(member_id=message.member_id)]
    errors: list[int] = []
    size_before = 0 if group is None else len(group.members)
    for identity in leaving:
        try:
            if group is None:
                raise UnknownMemberId(f"there is no group {message.group_id!r}")
            _remove_named(group, identity, builder)
            errors.append(NONE)
        except KafkaError as error:
            errors.append(error.code)
    if group is not None and NONE in errors:
        if group.state is ClassicState.PREPARING_REBALANCE:
            maybe_complete(group, builder)
        elif len(group.members) < size_before:
            prepare(group, builder, settings)
    if call.version < MANY_FROM:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
            for identity, error in zip(leaving, errors, strict=True)
        ]
    )


def _remove_named(
    group: ClassicGroup, identity: MemberIdentity, builder: ClassicOutcomeBuilder
) -> None:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id == NO_MEMBER_ID:
        # An administrator removes a static member, under any member id.
        if instance_id is None or instance_id not in group.static_ids:
            raise UnknownMemberId(f"no member has the instance id {instance_id!r}")
        member_id = group.static_ids[instance_id]
    elif member_id in group.pending:
        remove_pending(group, member_id, builder)
        return
    group.check_member(member_id, instance_id)
    remove(group, member_id, builder)
