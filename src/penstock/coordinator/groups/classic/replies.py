"""Answers to the requests of classic members, as each version spells them."""

from penstock.coordinator.groups.classic.group import ClassicGroup
from penstock.errors import KafkaError
from penstock.wire.messages.k11_join_group import JoinGroupResponse, JoinGroupResponseMember
from penstock.wire.messages.k14_sync_group import SyncGroupResponse

NO_MEMBER_ID = ""
# Before this version of JoinGroup "no protocol" is an empty string, from it on it is null.
PROTOCOL_NAME_NULLABLE_FROM = 7


def join_error(
    error: type[KafkaError], version: int, member_id: str = NO_MEMBER_ID
) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, protocol_name=_spelled(None, version), member_id=member_id
    )


def joined(group: ClassicGroup, member_id: str, version: int) -> JoinGroupResponse:
    """Return the current generation; its leader gets the list of members."""
    response = joined_as_follower(group, member_id, version)
    if member_id == group.leader_id:
        response.members = [
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata(group.protocol_name),
            )
            for each in group.members.values()
        ]
    return response


def joined_as_follower(group: ClassicGroup, member_id: str, version: int) -> JoinGroupResponse:
    assert group.leader_id is not None, "a group with members has a leader"
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=_spelled(group.protocol_name, version),
        leader=group.leader_id,
        member_id=member_id,
    )


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def sync_error(error: type[KafkaError]) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error.code)


def _spelled(protocol_name: str | None, version: int) -> str | None:
    return protocol_name or (None if version >= PROTOCOL_NAME_NULLABLE_FROM else "")
