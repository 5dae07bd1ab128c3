"""Produce, v3-v13.

v9: flexible.  v10: the leader comes back with NOT_LEADER_OR_FOLLOWER (KIP-951).  v12:
partitions join the transaction by themselves (KIP-890).  v13: topic ids.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Records, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import NodeEndpoint


@struct
class PartitionProduceData:
    index: Int32 = 0
    records: Records | None = None


@struct
class TopicProduceData:
    name: str = field("0-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message(key=0, versions="3-13", flexible=9)
class ProduceRequest:
    transactional_id: str | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


@struct
class BatchIndexAndErrorMessage:
    batch_index: Int32 = 0
    batch_index_error_message: str | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class PartitionProduceResponse:
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", default_factory=list)
    error_message: str | None = field("8+", default=None)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0, default_factory=LeaderIdAndEpoch)


@struct
class TopicProduceResponse:
    name: str = field("0-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@message(key=0, versions="3-13", flexible=9, response=True)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, default_factory=list)
