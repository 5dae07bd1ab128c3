"""ShareGroupDescribe, v1.  Share groups with their members (KIP-932)."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import NamedTopicIdPartitions


@message(key=77, versions="1", flexible=0)
class ShareGroupDescribeRequest:
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@struct
class Assignment:
    topic_partitions: list[NamedTopicIdPartitions] = field(default_factory=list)


@struct
class Member:
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: Assignment = field(default_factory=Assignment)


@struct
class DescribedGroup:
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[Member] = field(default_factory=list)
    authorized_operations: Int32 = -0x80000000


@message(key=77, versions="1", flexible=0, response=True)
class ShareGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
