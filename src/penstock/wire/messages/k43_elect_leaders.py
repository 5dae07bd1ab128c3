"""ElectLeaders, v0-v2.  v1: election type; top-level error.  v2: flexible."""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class TopicPartitions:
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(key=43, versions="0-2", flexible=2)
class ElectLeadersRequest:
    election_type: Int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: Int32 = 60000


@struct
class PartitionResult:
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


@struct
class ReplicaElectionResult:
    topic: str = ""
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(key=43, versions="0-2", flexible=2, response=True)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
