"""BeginQuorumEpoch, v0-v1.  v1: flexible; directory ids and endpoints (KIP-853)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import Listener, QuorumNodeEndpoint, QuorumTopicResult


@struct
class RequestPartitionData:
    partition_index: Int32 = 0
    voter_directory_id: Uuid = field("1+", default=ZERO_UUID)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(key=53, versions="0-1", flexible=1)
class BeginQuorumEpochRequest:
    cluster_id: str | None = None
    voter_id: Int32 = field("1+", default=-1)
    topics: list[RequestTopicData] = field(default_factory=list)
    leader_endpoints: list[Listener] = field("1+", default_factory=list)


@message(key=53, versions="0-1", flexible=1, response=True)
class BeginQuorumEpochResponse:
    error_code: Int16 = 0
    topics: list[QuorumTopicResult] = field(default_factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field("1+", tag=0, default_factory=list)
