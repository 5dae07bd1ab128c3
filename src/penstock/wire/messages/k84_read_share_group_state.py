"""ReadShareGroupState, v0.  State of a share partition, for its new leader (KIP-932)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import ReadStateTopic, StateBatch


@message(key=84, versions="0", flexible=0)
class ReadShareGroupStateRequest:
    group_id: str = ""
    topics: list[ReadStateTopic] = field(default_factory=list)


@struct
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


@struct
class ReadStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(key=84, versions="0", flexible=0, response=True)
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = field(default_factory=list)
