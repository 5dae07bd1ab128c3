"""FetchSnapshot, v0-v1.  v1: directory id and endpoints (KIP-853)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Records, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import LeaderIdAndEpoch, QuorumNodeEndpoint


@struct
class SnapshotId:
    end_offset: Int64 = 0
    epoch: Int32 = 0


@struct
class RequestPartitionSnapshot:
    partition: Int32 = 0
    current_leader_epoch: Int32 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    position: Int64 = 0
    replica_directory_id: Uuid = field("1+", tag=0, default=ZERO_UUID)


@struct
class RequestTopicSnapshot:
    name: str = ""
    partitions: list[RequestPartitionSnapshot] = field(default_factory=list)


@message(key=59, versions="0-1", flexible=0)
class FetchSnapshotRequest:
    cluster_id: str | None = field(tag=0, default=None)
    replica_id: Int32 = -1
    max_bytes: Int32 = 0x7FFFFFFF
    topics: list[RequestTopicSnapshot] = field(default_factory=list)


@struct
class ResponsePartitionSnapshot:
    index: Int32 = 0
    error_code: Int16 = 0
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    current_leader: LeaderIdAndEpoch = field(tag=0, default_factory=LeaderIdAndEpoch)
    size: Int64 = 0
    position: Int64 = 0
    unaligned_records: Records = b""


@struct
class ResponseTopicSnapshot:
    name: str = ""
    partitions: list[ResponsePartitionSnapshot] = field(default_factory=list)


@message(key=59, versions="0-1", flexible=0, response=True)
class FetchSnapshotResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[ResponseTopicSnapshot] = field(default_factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field("1+", tag=0, default_factory=list)
