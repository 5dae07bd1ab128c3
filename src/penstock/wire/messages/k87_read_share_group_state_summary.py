"""ReadShareGroupStateSummary, v0-v1.

Start offset of share partitions, without their batches (KIP-932).  v1: delivery complete
count.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import ReadStateTopic


@message(key=87, versions="0-1", flexible=0)
class ReadShareGroupStateSummaryRequest:
    group_id: str = ""
    topics: list[ReadStateTopic] = field(default_factory=list)


@struct
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field("1+", default=-1)


@struct
class ReadStateSummaryResult:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(key=87, versions="0-1", flexible=0, response=True)
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = field(default_factory=list)
