"""DescribeGroups v0-v6, ListGroups v0-v5 and DeleteGroups v0-v2, for one coordinator partition.

DescribeGroups describes classic groups only, ConsumerGroupDescribe the others. Below v6 a missing
group is described as dead, from v6 on the error is GROUP_ID_NOT_FOUND.
"""

from penstock.coordinator.events import GroupRequest
from penstock.coordinator.groups.classic import (
    ClassicGroup,
    ClassicMember,
    ClassicState,
    cancel_timers,
)
from penstock.coordinator.groups.group import CoordinatedGroup, GroupCoordinatorState
from penstock.coordinator.groups.set_aside import SetAsideGroup
from penstock.coordinator.records import CoordinatorRecord
from penstock.effects import CancelTimer, Outcome
from penstock.errors import GroupIdNotFound, KafkaError
from penstock.wire.messages.k15_describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from penstock.wire.messages.k16_list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from penstock.wire.messages.k42_delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

NOT_FOUND_FROM = 6


class AdminRequests:
    """Handles requests about groups of every kind."""

    def __init__(self, state: GroupCoordinatorState) -> None:
        self._state = state

    # DescribeGroups

    def describe(self, call: GroupRequest) -> Outcome:
        message: DescribeGroupsRequest = call.message
        groups = [self._describe(group_id, call.version) for group_id in message.groups]
        return Outcome(reply=DescribeGroupsResponse(groups=groups))

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        group = self._state.groups.get(group_id)
        if isinstance(group, SetAsideGroup):
            rejection = group.rejection
            return DescribedGroup(
                group_id=group_id,
                group_state=group.state_name,
                error_code=rejection.code,
                error_message=rejection.message,
            )
        if not isinstance(group, ClassicGroup):
            missing = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD.value)
            if version >= NOT_FOUND_FROM:
                what = "not found" if group is None else "is not a classic group"
                error = GroupIdNotFound(f"Group {group_id} {what}.")
                missing.error_code, missing.error_message = error.code, error.message
            return missing
        stable = group.state is ClassicState.STABLE
        protocol_name = group.protocol_name if stable else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol_name or "",
            members=[_member(each, protocol_name, stable) for each in group.members.values()],
        )

    # ListGroups

    def list_all(self, call: GroupRequest) -> Outcome:
        message: ListGroupsRequest = call.message
        states = {state.strip().lower() for state in message.states_filter}
        kinds = {kind.strip().lower() for kind in message.types_filter}
        listed = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.kind,
            )
            for group in self._state.groups.values()
            if (not states or group.state_name.lower() in states)
            and (not kinds or group.kind in kinds)
        ]
        return Outcome(reply=ListGroupsResponse(groups=listed))

    # DeleteGroups

    def delete(self, call: GroupRequest) -> Outcome:
        message: DeleteGroupsRequest = call.message
        records: list[CoordinatorRecord] = []
        timers: list[CancelTimer] = []
        results: list[DeletableGroupResult] = []
        for group_id in dict.fromkeys(message.groups_names):
            result = DeletableGroupResult(group_id=group_id)
            results.append(result)
            try:
                group = self._deletable(group_id)
            except KafkaError as error:
                result.error_code = error.code
                continue
            records += self._state.offsets.tombstones_of(group_id)
            records += group.tombstones()
            if isinstance(group, ClassicGroup):
                timers += cancel_timers(group)  # of pending members
        return Outcome(records, DeleteGroupsResponse(results=results), timers)

    def _deletable(self, group_id: str) -> CoordinatedGroup:
        group = self._state.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        group.check_delete()
        return group


def _member(member: ClassicMember, protocol_name: str | None, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        # Outside a generation members may not even have a protocol in common.
        member_metadata=member.metadata(protocol_name) if stable else b"",
        member_assignment=member.assignment,
    )
