"""ShareAcknowledge, v1-v2.

Acknowledgements without a fetch (KIP-932).  v2: they may renew the lock.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import AcknowledgeTopic, LeaderIdAndEpoch, NodeEndpoint


@message(key=79, versions="1-2", flexible=0)
class ShareAcknowledgeRequest:
    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: bool = field("2+", default=False)
    topics: list[AcknowledgeTopic] = field(default_factory=list)


@struct
class PartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=79, versions="1-2", flexible=0, response=True)
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = field("2+", default=0)
    responses: list[ShareAcknowledgeTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)
