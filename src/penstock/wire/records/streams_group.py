"""Records of streams groups in `__consumer_offsets` (KIP-1071)."""

from penstock.wire.primitives import Int8, Int32, Int64
from penstock.wire.schema import field, record, struct
from penstock.wire.structures import Endpoint, KeyValue, Subtopology, TaskIds


@record(key=17, versions="0")
class StreamsGroupMetadataKey:
    group_id: str = ""


@record(key=17, versions="0", flexible=0)
class StreamsGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Int32 = field(tag=0, default=-1)
    last_assignment_configs: list[KeyValue] | None = field(tag=1, default_factory=list)


@record(key=19, versions="0")
class StreamsGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@record(key=19, versions="0", flexible=0)
class StreamsGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(default_factory=list)


@record(key=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@record(key=20, versions="0", flexible=0)
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = field(tag=0, default=0)


@record(key=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@record(key=21, versions="0", flexible=0)
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TaskIds] = field(default_factory=list)
    standby_tasks: list[TaskIds] = field(default_factory=list)
    warmup_tasks: list[TaskIds] = field(default_factory=list)


@record(key=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@struct
class StreamsGroupCurrentMemberAssignmentTaskIds:
    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)
    assignment_epochs: list[Int32] | None = field(tag=0, default_factory=list)


@record(key=22, versions="0", flexible=0)
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(default_factory=list)
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(
        default_factory=list
    )
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(
        default_factory=list
    )
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentTaskIds] = field(
        default_factory=list
    )


@record(key=23, versions="0")
class StreamsGroupTopologyKey:
    group_id: str = ""


@record(key=23, versions="0", flexible=0)
class StreamsGroupTopologyValue:
    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)
