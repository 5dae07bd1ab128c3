"""DeleteShareGroupState, v0.  Forgets share partitions (KIP-932)."""

from penstock.wire.primitives import ZERO_UUID, Int32, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import StateTopicResult


@struct
class PartitionData:
    partition: Int32 = 0


@struct
class DeleteStateData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=86, versions="0", flexible=0)
class DeleteShareGroupStateRequest:
    group_id: str = ""
    topics: list[DeleteStateData] = field(default_factory=list)


@message(key=86, versions="0", flexible=0, response=True)
class DeleteShareGroupStateResponse:
    results: list[StateTopicResult] = field(default_factory=list)
