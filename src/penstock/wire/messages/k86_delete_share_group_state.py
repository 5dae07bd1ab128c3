"""DeleteShareGroupState, v0.  Forgets share partitions (KIP-932)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct


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


@struct
class PartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


@struct
class DeleteStateResult:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionResult] = field(default_factory=list)


@message(key=86, versions="0", flexible=0, response=True)
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = field(default_factory=list)
