"""Records of `__consumer_offsets`: offsets, classic groups and consumer groups.

The legacy pair is of old logs, where the type of an offset key was 0 or 1.
"""

from penstock.wire.primitives import ZERO_UUID, Int8, Int32, Int64, Uuid
from penstock.wire.schema import field, record, struct
from penstock.wire.structures import TopicIdPartitions


@record(key=0, versions="0")
class LegacyOffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@record(key=0, versions="0")
class LegacyOffsetCommitValue:
    offset: Int64 = 0
    metadata: str = ""
    commit_timestamp: Int64 = 0


@record(key=1, versions="0")
class OffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@record(key=1, versions="0-4", flexible=4)
class OffsetCommitValue:
    offset: Int64 = 0
    leader_epoch: Int32 = field("3+", default=-1)
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Int64 = field("1", default=-1)
    topic_id: Uuid = field("4+", tag=0, default=ZERO_UUID)


@record(key=2, versions="0")
class GroupMetadataKey:
    group: str = ""


@struct
class MemberMetadata:
    member_id: str = ""
    group_instance_id: str | None = field("3+", default=None)
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Int32 = field("1+", default=-1)
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@record(key=2, versions="0-4", flexible=4)
class GroupMetadataValue:
    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Int64 = field("2+", default=-1)
    members: list[MemberMetadata] = field(default_factory=list)


@record(key=3, versions="0")
class ConsumerGroupMetadataKey:
    group_id: str = ""


@record(key=3, versions="0", flexible=0)
class ConsumerGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = field(tag=0, default=0)


@record(key=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    group_id: str = ""


@struct
class PartitionMetadata:
    partition: Int32 = 0
    racks: list[str] = field(default_factory=list)


@struct
class TopicMetadata:
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: list[PartitionMetadata] = field(default_factory=list)


@record(key=4, versions="0", flexible=0)
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = field(default_factory=list)


@record(key=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@struct
class ClassicProtocol:
    name: str = ""
    metadata: bytes = b""


@struct
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: list[ClassicProtocol] = field(default_factory=list)


@record(key=5, versions="0", flexible=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = field(
        tag=0, default_factory=ClassicMemberMetadata
    )


@record(key=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@record(key=6, versions="0", flexible=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(tag=0, default=0)


@record(key=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@record(key=7, versions="0", flexible=0)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicIdPartitions] = field(default_factory=list)


@record(key=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@struct
class TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: list[Int32] | None = field(tag=0, default_factory=list)


@record(key=8, versions="0", flexible=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[TopicPartitions] = field(default_factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(default_factory=list)


@record(key=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: str = ""
    regular_expression: str = ""


@record(key=16, versions="0", flexible=0)
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = field(default_factory=list)
    version: Int64 = 0
    timestamp: Int64 = 0
