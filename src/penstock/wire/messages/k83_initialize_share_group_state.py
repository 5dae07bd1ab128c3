"""InitializeShareGroupState, v0.  First state of a share partition (KIP-932)."""

from penstock.wire.primitives import ZERO_UUID, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import StateTopicResult


@struct
class PartitionData:
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


@struct
class InitializeStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=83, versions="0", flexible=0)
class InitializeShareGroupStateRequest:
    group_id: str = ""
    topics: list[InitializeStateData] = field(default_factory=list)


@message(key=83, versions="0", flexible=0, response=True)
class InitializeShareGroupStateResponse:
    results: list[StateTopicResult] = field(default_factory=list)
