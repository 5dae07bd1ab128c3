"""Fetch, v4-v18.

v5: log start offset.  v7: sessions (KIP-227).  v9: leader epoch (KIP-320).  v10: zstd
allowed.  v11: rack and preferred replica.  v12: flexible; truncation on fetch, snapshots.  v13:
topic ids.  v15: replica state with its epoch (KIP-903).  v16: node endpoints (KIP-951).  v17:
directory id (KIP-853).  v18: the follower's high watermark (KIP-1166).
"""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Int64, Records, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import NodeEndpoint


@struct
class ReplicaState:
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


@struct
class FetchPartition:
    partition: Int32 = 0
    current_leader_epoch: Int32 = field("9+", default=-1)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field("12+", default=-1)
    log_start_offset: Int64 = field("5+", default=-1)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field("17+", tag=0, default=ZERO_UUID)
    high_watermark: Int64 = field("18+", tag=1, default=0x7FFFFFFFFFFFFFFF)


@struct
class FetchTopic:
    topic: str = field("0-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic:
    topic: str = field("7-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: list[Int32] = field(default_factory=list)


@message(key=1, versions="4-18", flexible=12)
class FetchRequest:
    cluster_id: str | None = field("12+", tag=0, default=None)
    replica_id: Int32 = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1, default_factory=ReplicaState)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    isolation_level: Int8 = 0
    session_id: Int32 = field("7+", default=0)
    session_epoch: Int32 = field("7+", default=-1)
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field("7+", default_factory=list)
    rack_id: str = field("11+", default="")


@struct
class EpochEndOffset:
    epoch: Int32 = -1
    end_offset: Int64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


@struct
class SnapshotId:
    end_offset: Int64 = -1
    epoch: Int32 = -1


@struct
class AbortedTransaction:
    producer_id: Int64 = 0
    first_offset: Int64 = 0


@struct
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field("5+", default=-1)
    diverging_epoch: EpochEndOffset = field("12+", tag=0, default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1, default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field("12+", tag=2, default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: Int32 = field("11+", default=-1)
    records: Records | None = None


@struct
class FetchableTopicResponse:
    topic: str = field("0-12", default="")
    topic_id: Uuid = field("13+", default=ZERO_UUID)
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=1, versions="4-18", flexible=12, response=True)
class FetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("7+", default=0)
    session_id: Int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, default_factory=list)
