"""DescribeGroups, v0-v6.

v3: authorized operations.  v4: static members.  v5: flexible.  v6: GROUP_ID_NOT_FOUND with a
message (KIP-1043).
"""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@message(key=15, versions="0-6", flexible=5)
class DescribeGroupsRequest:
    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = field("3+", default=False)


@struct
class DescribedGroupMember:
    member_id: str = ""
    group_instance_id: str | None = field("4+", default=None)
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: str | None = field("6+", default=None)
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: Int32 = field("3+", default=-0x80000000)


@message(key=15, versions="0-6", flexible=5, response=True)
class DescribeGroupsResponse:
    throttle_time_ms: Int32 = field("1+", default=0)
    groups: list[DescribedGroup] = field(default_factory=list)
