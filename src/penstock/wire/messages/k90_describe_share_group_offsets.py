"""DescribeShareGroupOffsets, v0-v1.  The offsets of a share group (KIP-932).  v1: lag."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message, struct


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(default_factory=list)


@message(key=90, versions="0-1", flexible=0)
class DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field("1+", default=-1)
    error_code: Int16 = 0
    error_message: str | None = None


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(default_factory=list)


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(default_factory=list)
    error_code: Int16 = 0
    error_message: str | None = None


@message(key=90, versions="0-1", flexible=0, response=True)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(default_factory=list)
