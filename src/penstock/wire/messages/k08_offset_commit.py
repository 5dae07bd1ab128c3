"""OffsetCommit, v2-v10.

v2-v4: retention time.  v6: leader epoch.  v7: static members.  v8: flexible.  v9: consumer groups
(KIP-848).  v10: topic ids.
"""

from penstock.wire.primitives import ZERO_UUID, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import PartitionError


@struct
class OffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("6+", default=-1)
    committed_metadata: str | None = ""


@struct
class OffsetCommitRequestTopic:
    name: str = field("0-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(key=8, versions="2-10", flexible=8)
class OffsetCommitRequest:
    group_id: str = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: str | None = field("7+", default=None)
    retention_time_ms: Int64 = field("2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@struct
class OffsetCommitResponseTopic:
    name: str = field("0-9", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    partitions: list[PartitionError] = field(default_factory=list)


@message(key=8, versions="2-10", flexible=8, response=True)
class OffsetCommitResponse:
    throttle_time_ms: Int32 = field("3+", default=0)
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
