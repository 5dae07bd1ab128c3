"""AlterReplicaLogDirs, v1-v2.  v2: flexible."""

from penstock.wire.primitives import Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import PartitionError


@struct
class AlterReplicaLogDirTopic:
    name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class AlterReplicaLogDir:
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@message(key=34, versions="1-2", flexible=2)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = ""
    partitions: list[PartitionError] = field(default_factory=list)


@message(key=34, versions="1-2", flexible=2, response=True)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
