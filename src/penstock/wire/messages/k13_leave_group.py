"""LeaveGroup, v0-v5.  v3: many members in one request.  v4: flexible.  v5: reason (KIP-800)."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class MemberIdentity:
    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = field("5+", default=None)


@message(key=13, versions="0-5", flexible=4)
class LeaveGroupRequest:
    group_id: str = ""
    member_id: str = field("0-2", default="")
    members: list[MemberIdentity] = field("3+", default_factory=list)


@struct
class MemberResponse:
    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: Int16 = 0


@message(key=13, versions="0-5", flexible=4, response=True)
class LeaveGroupResponse:
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = 0
    members: list[MemberResponse] = field("3+", default_factory=list)
