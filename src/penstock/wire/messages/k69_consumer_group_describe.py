"""ConsumerGroupDescribe, v0-v1.  v1: member type (KIP-1099)."""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import NamedTopicIdPartitions


@message(key=69, versions="0-1", flexible=0)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@struct
class Assignment:
    topic_partitions: list[NamedTopicIdPartitions] = field(default_factory=list)


@struct
class Member:
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Int8 = field("1+", default=-1)


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


@message(key=69, versions="0-1", flexible=0, response=True)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
