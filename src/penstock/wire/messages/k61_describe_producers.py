"""DescribeProducers, v0.  Producers with state in a partition."""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@struct
class TopicRequest:
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@message(key=61, versions="0", flexible=0)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(default_factory=list)


@struct
class ProducerState:
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@struct
class PartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@struct
class TopicResponse:
    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@message(key=61, versions="0", flexible=0, response=True)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
