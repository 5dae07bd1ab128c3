"""AssignReplicasToDirs, v0.  A broker reports the directory of each replica (KIP-858)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import PartitionError


@struct
class RequestPartitionData:
    partition_index: Int32 = 0


@struct
class RequestTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[RequestPartitionData] = field(default_factory=list)


@struct
class RequestDirectoryData:
    id: Uuid = ZERO_UUID
    topics: list[RequestTopicData] = field(default_factory=list)


@message(key=73, versions="0", flexible=0)
class AssignReplicasToDirsRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[RequestDirectoryData] = field(default_factory=list)


@struct
class ResponseTopicData:
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionError] = field(default_factory=list)


@struct
class ResponseDirectoryData:
    id: Uuid = ZERO_UUID
    topics: list[ResponseTopicData] = field(default_factory=list)


@message(key=73, versions="0", flexible=0, response=True)
class AssignReplicasToDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[ResponseDirectoryData] = field(default_factory=list)
