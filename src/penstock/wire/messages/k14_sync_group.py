"""SyncGroup, v0-v5.

v3: static members.  v4: flexible.  v5: protocol type and name, to be compared (KIP-559).
"""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = ""
    assignment: bytes = b""


@message(key=14, versions="0-5", flexible=4)
class SyncGroupRequest:
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: str | None = field("3+", default=None)
    protocol_type: str | None = field("5+", default=None)
    protocol_name: str | None = field("5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


@message(key=14, versions="0-5", flexible=4, response=True)
class SyncGroupResponse:
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = 0
    protocol_type: str | None = field("5+", default=None)
    protocol_name: str | None = field("5+", default=None)
    assignment: bytes = b""
