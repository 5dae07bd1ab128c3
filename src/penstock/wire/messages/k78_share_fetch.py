"""ShareFetch, v1-v2.

Records for a share group, acknowledgements on the way (KIP-932).  v2: acquire mode;
acknowledgements may renew the lock.
"""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Int64, Records, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import (
    AcknowledgeTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    TopicIdPartitions,
)


@message(key=78, versions="1-2", flexible=0)
class ShareFetchRequest:
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = field("2+", default=0)
    is_renew_ack: bool = field("2+", default=False)
    topics: list[AcknowledgeTopic] = field(default_factory=list)
    forgotten_topics_data: list[TopicIdPartitions] = field(default_factory=list)


@struct
class AcquiredRecords:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


@struct
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    records: Records = b""
    acquired_records: list[AcquiredRecords] = field(default_factory=list)


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=78, versions="1-2", flexible=0, response=True)
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
