"""WriteShareGroupState, v0-v1.

State of a share partition, from its leader (KIP-932).  v1: delivery complete count.
"""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct


@struct
class StateBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class PartitionData:
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field("1+", default=-1)
    state_batches: list[StateBatch] = field(default_factory=list)


@struct
class WriteStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=85, versions="0-1", flexible=0)
class WriteShareGroupStateRequest:
    group_id: str = ""
    topics: list[WriteStateData] = field(default_factory=list)


@struct
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


@struct
class WriteStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(key=85, versions="0-1", flexible=0, response=True)
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = field(default_factory=list)
