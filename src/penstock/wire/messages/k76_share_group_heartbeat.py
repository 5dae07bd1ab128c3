"""ShareGroupHeartbeat, v1.  Share group membership (KIP-932)."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import TopicIdPartitions


@message(key=76, versions="1", flexible=0)
class ShareGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@struct
class Assignment:
    topic_partitions: list[TopicIdPartitions] = field(default_factory=list)


@message(key=76, versions="1", flexible=0, response=True)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
