"""Records of share groups in `__consumer_offsets` (KIP-932)."""

from penstock.wire.primitives import ZERO_UUID, Int8, Int32, Int64, Uuid
from penstock.wire.schema import field, record, struct
from penstock.wire.structures import NamedTopicIdPartitions, TopicIdPartitions


@record(key=10, versions="0")
class ShareGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@record(key=10, versions="0", flexible=0)
class ShareGroupMemberMetadataValue:
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)


@record(key=11, versions="0")
class ShareGroupMetadataKey:
    group_id: str = ""


@record(key=11, versions="0", flexible=0)
class ShareGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@record(key=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@record(key=12, versions="0", flexible=0)
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(tag=0, default=0)


@record(key=13, versions="0")
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@record(key=13, versions="0", flexible=0)
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicIdPartitions] = field(default_factory=list)


@record(key=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@record(key=14, versions="0", flexible=0)
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicIdPartitions] = field(default_factory=list)


@record(key=15, versions="0")
class ShareGroupStatePartitionMetadataKey:
    group_id: str = ""


@struct
class TopicInfo:
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""


@record(key=15, versions="0", flexible=0)
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[NamedTopicIdPartitions] = field(default_factory=list)
    initialized_topics: list[NamedTopicIdPartitions] = field(default_factory=list)
    deleting_topics: list[TopicInfo] = field(default_factory=list)
