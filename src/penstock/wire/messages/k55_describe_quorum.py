"""DescribeQuorum, v0-v2.

v1: fetch times of replicas (KIP-836).  v2: directory ids, nodes, error messages (KIP-853).
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import Listener


@struct
class RequestPartitionData:
    partition_index: Int32 = 0


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(key=55, versions="0-2", flexible=0)
class DescribeQuorumRequest:
    topics: list[RequestTopicData] = field(default_factory=list)


@struct
class ReplicaState:
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field("2+", default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field("1+", default=-1)
    last_caught_up_timestamp: Int64 = field("1+", default=-1)


@struct
class ResponsePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = field("2+", default="")
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@struct
class ResponseTopicData:
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@struct
class Node:
    node_id: Int32 = 0
    listeners: list[Listener] = field(default_factory=list)


@message(key=55, versions="0-2", flexible=0, response=True)
class DescribeQuorumResponse:
    error_code: Int16 = 0
    error_message: str | None = field("2+", default="")
    topics: list[ResponseTopicData] = field(default_factory=list)
    nodes: list[Node] = field("2+", default_factory=list)
