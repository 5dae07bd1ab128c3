"""Has members of a group leave it, from outside."""

from collections.abc import Sequence

from penstock.client.admin.coordinator_values import GroupMember
from penstock.client.transport.connection import Connection
from penstock.errors import KafkaError, UnknownServerError, UnsupportedVersion, from_code
from penstock.wire.messages import k13_leave_group

MANY_MEMBERS_FROM = 3  # the version of LeaveGroup that takes many at once, and static ones
REASON_CHARACTERS_MAX = 255
REASON = "removed by an administrator"


def ask_leave(
    connection: Connection, name: str, members: Sequence[GroupMember | str], reason: str
) -> dict[str, KafkaError | None] | KafkaError:
    wire = k13_leave_group
    said = (reason or REASON)[:REASON_CHARACTERS_MAX]
    asked = {
        _key(each): wire.MemberIdentity(
            # A static member leaves by its instance id alone: its member id may have changed.
            member_id="" if _instance_id(each) is not None else _key(each),
            group_instance_id=_instance_id(each),
            reason=said,
        )
        for each in members
    }
    if not asked:
        return {}
    request = wire.LeaveGroupRequest(group_id=name, members=list(asked.values()))
    if connection.version_for(request) < MANY_MEMBERS_FROM:
        return UnsupportedVersion(f"the server at {connection} is too old to remove members")
    answer = connection.request(request, wire.LeaveGroupResponse)
    if answer.error_code:
        return from_code(answer.error_code)
    told = {
        each.group_instance_id or each.member_id: from_code(each.error_code)
        if each.error_code
        else None
        for each in answer.members
    }
    silent = UnknownServerError("the server did not answer for it")
    return {key: told.get(key, silent) for key in asked}


def _instance_id(member: GroupMember | str) -> str | None:
    return member if isinstance(member, str) else member.instance_id


def _key(member: GroupMember | str) -> str:
    return _instance_id(member) or (member if isinstance(member, str) else member.member_id)
