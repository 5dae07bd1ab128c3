"""Vote, v0-v2.  v1: voter directory ids (KIP-853).  v2: pre-vote (KIP-996)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import QuorumNodeEndpoint


@struct
class RequestPartitionData:
    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field("1+", default=ZERO_UUID)
    voter_directory_id: Uuid = field("1+", default=ZERO_UUID)
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: bool = field("2+", default=False)


@struct
class RequestTopicData:
    topic_name: str = ""
    partitions: list[RequestPartitionData] = field(default_factory=list)


@message(key=52, versions="0-2", flexible=0)
class VoteRequest:
    cluster_id: str | None = None
    voter_id: Int32 = field("1+", default=-1)
    topics: list[RequestTopicData] = field(default_factory=list)


@struct
class ResponsePartitionData:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: bool = False


@struct
class ResponseTopicData:
    topic_name: str = ""
    partitions: list[ResponsePartitionData] = field(default_factory=list)


@message(key=52, versions="0-2", flexible=0, response=True)
class VoteResponse:
    error_code: Int16 = 0
    topics: list[ResponseTopicData] = field(default_factory=list)
    node_endpoints: list[QuorumNodeEndpoint] = field("1+", tag=0, default_factory=list)
