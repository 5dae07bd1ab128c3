"""DescribeLogDirs, v1-v5.

v2: flexible.  v3: top-level error.  v4: total and usable bytes.  v5: whether the directory is
cordoned.
"""

from penstock.wire.primitives import Int16, Int32, Int64
from penstock.wire.schema import field, message, struct


@struct
class DescribableLogDirTopic:
    topic: str = ""
    partitions: list[Int32] = field(default_factory=list)


@message(key=35, versions="1-5", flexible=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@struct
class DescribeLogDirsPartition:
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


@struct
class DescribeLogDirsTopic:
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Int64 = field("4+", default=-1)
    usable_bytes: Int64 = field("4+", default=-1)
    is_cordoned: bool = field("5+", default=False)


@message(key=35, versions="1-5", flexible=2, response=True)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field("3+", default=0)
    results: list[DescribeLogDirsResult] = field(default_factory=list)
