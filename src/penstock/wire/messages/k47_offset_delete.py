"""OffsetDelete, v0.  Never flexible."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import TopicErrors


@struct
class OffsetDeleteRequestPartition:
    partition_index: Int32 = 0


@struct
class OffsetDeleteRequestTopic:
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@message(key=47, versions="0", response=True)
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[TopicErrors] = field(default_factory=list)
