"""AlterPartition, v2-v3.

v2: topic ids.  v3: broker epochs beside the in-sync replicas (KIP-903).
"""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct


@struct
class BrokerState:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


@struct
class RequestPartitionData:
    partition_index: Int32 = 0
    leader_epoch: Int32 = 0
    new_isr: list[Int32] = field("0-2", default_factory=list)
    new_isr_with_epochs: list[BrokerState] = field("3+", default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


@struct
class RequestTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(key=56, versions="2-3", flexible=0)
class AlterPartitionRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    topics: list[RequestTopicData] = field(default_factory=list)


@struct
class ResponsePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = field(default_factory=list)
    leader_recovery_state: Int8 = 0
    partition_epoch: Int32 = 0


@struct
class ResponseTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@message(key=56, versions="2-3", flexible=0, response=True)
class AlterPartitionResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
