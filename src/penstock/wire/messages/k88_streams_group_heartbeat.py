"""StreamsGroupHeartbeat, v0.  Streams group membership, topology and tasks (KIP-1071)."""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import Endpoint, KeyValue, Subtopology, TaskIds, TaskOffset


@struct
class Topology:
    epoch: Int32 = 0
    subtopologies: list[Subtopology] = field(default_factory=list)


@message(key=88, versions="0", flexible=0)
class StreamsGroupHeartbeatRequest:
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


@struct
class Status:
    status_code: Int8 = 0
    status_detail: str = ""


@struct
class TopicPartition:
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint = field(default_factory=Endpoint)
    active_partitions: list[TopicPartition] = field(default_factory=list)
    standby_partitions: list[TopicPartition] = field(default_factory=list)


@message(key=88, versions="0", flexible=0, response=True)
class StreamsGroupHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = field(default_factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
