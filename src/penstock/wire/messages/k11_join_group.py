"""JoinGroup, v0-v9.

v1: separate rebalance timeout.  v4: a new member gets its id first (KIP-394).  v5: static
members.  v6: flexible.  v7: protocol type in the response.  v8: reason.  v9: the response
may tell the leader to skip the assignment.
"""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class JoinGroupRequestProtocol:
    name: str = ""
    metadata: bytes = b""


@message(key=11, versions="0-9", flexible=6)
class JoinGroupRequest:
    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field("1+", default=-1)
    member_id: str = ""
    group_instance_id: str | None = field("5+", default=None)
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = field("8+", default=None)


@struct
class JoinGroupResponseMember:
    member_id: str = ""
    group_instance_id: str | None = field("5+", default=None)
    metadata: bytes = b""


@message(key=11, versions="0-9", flexible=6, response=True)
class JoinGroupResponse:
    throttle_time_ms: Int32 = field("2+", default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: str | None = field("7+", default=None)
    protocol_name: str | None = field(nullable="7+", default="")
    leader: str = ""
    skip_assignment: bool = field("9+", default=False)
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)
