"""OffsetFetch, v1-v10.

v2: null means all topics; top-level error.  v5: leader epoch.  v6: flexible.  v7: require_stable
(KIP-447).  v8: many groups in one request.  v9: member id and epoch (KIP-848).  v10: topic ids.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct


@struct
class OffsetFetchRequestTopic:
    name: str = ""
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class OffsetFetchRequestTopics:
    name: str = field("8-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partition_indexes: list[Int32] = field(default_factory=list)


@struct
class OffsetFetchRequestGroup:
    group_id: str = ""
    member_id: str | None = field("9+", default=None)
    member_epoch: Int32 = field("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


@message(key=9, versions="1-10", flexible=6)
class OffsetFetchRequest:
    group_id: str = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field(
        "0-7", nullable="2-7", default_factory=list
    )
    groups: list[OffsetFetchRequestGroup] = field("8+", default_factory=list)
    require_stable: bool = field("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("5-7", default=-1)
    metadata: str | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopic:
    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@struct
class OffsetFetchResponsePartitions:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: str | None = ""
    error_code: Int16 = 0


@struct
class OffsetFetchResponseTopics:
    name: str = field("8-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: Int16 = 0


@message(key=9, versions="1-10", flexible=6, response=True)
class OffsetFetchResponse:
    throttle_time_ms: Int32 = field("3+", default=0)
    topics: list[OffsetFetchResponseTopic] = field("0-7", default_factory=list)
    error_code: Int16 = field("2-7", default=0)
    groups: list[OffsetFetchResponseGroup] = field("8+", default_factory=list)
