"""Heartbeat, v0-v4.  v3: static members.  v4: flexible."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message


@message(key=12, versions="0-4", flexible=4)
class HeartbeatRequest:
    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: str | None = field("3+", default=None)


@message(key=12, versions="0-4", flexible=4, response=True)
class HeartbeatResponse:
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = 0
