"""ListPartitionReassignments, v0.  Reassignments in progress."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(key=46, versions="0", flexible=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@struct
class OngoingPartitionReassignment:
    partition_index: Int32 = 0
    replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)


@struct
class OngoingTopicReassignment:
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(key=46, versions="0", flexible=0, response=True)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
