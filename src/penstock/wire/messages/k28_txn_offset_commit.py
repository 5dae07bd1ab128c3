"""TxnOffsetCommit, v0-v5.

v2: leader epoch.  v3: flexible; member, instance and generation.  v4:
TRANSACTION_ABORTABLE.  v5: adds the group to the transaction by itself (KIP-890).
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import TopicErrors


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field("2+", default=-1)
    committed_metadata: str | None = ""


@struct
class TxnOffsetCommitRequestTopic:
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(key=28, versions="0-5", flexible=3)
class TxnOffsetCommitRequest:
    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field("3+", default=-1)
    member_id: str = field("3+", default="")
    group_instance_id: str | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@message(key=28, versions="0-5", flexible=3, response=True)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TopicErrors] = field(default_factory=list)
