"""EndQuorumEpoch, v0-v1.  v1: flexible; candidates with directory ids, endpoints (KIP-853)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import Listener, QuorumNodeEndpoint, QuorumTopicResult


@struct
class ReplicaInfo:
    candidate_id: Int32 = 0
    candidate_directory_id: Uuid = ZERO_UUID


@struct
class RequestPartitionData:
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    preferred_successors: list[Int32] = field("0", default_factory=list)
    preferred_candidates: list[ReplicaInfo] = field("1+", default_factory=list)


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(key=54, versions="0-1", flexible=1)
class EndQuorumEpochRequest:
    cluster_id: str | None = None
    topics: list[RequestTopicData] = field(default_factory=list)
    leader_endpoints: list[Listener] = field("1+", default_factory=list)


@message(key=54, versions="0-1", flexible=1, response=True)
class EndQuorumEpochResponse:
    error_code: Int16 = 0
    topics: list[QuorumTopicResult] = field(default_factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field("1+", tag=0, default_factory=list)
