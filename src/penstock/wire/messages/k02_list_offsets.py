"""ListOffsets, v1-v11.

v2: isolation level.  v4: leader epoch.  v6: flexible.  v7: max timestamp (-3).  v8: earliest
local (-4).  v9: latest tiered (-5).  v10: timeout for remote lookups.  v11: earliest pending
upload (-6).
"""

from penstock.wire.primitives import Int8, Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@struct
class ListOffsetsPartition:
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field("4+", default=-1)
    timestamp: Int64 = 0


@struct
class ListOffsetsTopic:
    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@message(key=2, versions="1-11", flexible=6)
class ListOffsetsRequest:
    replica_id: Int32 = 0
    isolation_level: Int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Int32 = field("10+", default=0)


@struct
class ListOffsetsPartitionResponse:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message(key=2, versions="1-11", flexible=6, response=True)
class ListOffsetsResponse:
    throttle_time_ms: Int32 = field("2+", default=0)
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
