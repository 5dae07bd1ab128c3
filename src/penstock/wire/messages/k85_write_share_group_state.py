"""WriteShareGroupState, v0-v1.

State of a share partition, from its leader (KIP-932).  v1: delivery complete count.
"""

from penstock.wire.primitives import ZERO_UUID, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import StateBatch, StateTopicResult


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


@message(key=85, versions="0-1", flexible=0, response=True)
class WriteShareGroupStateResponse:
    results: list[StateTopicResult] = field(default_factory=list)
