"""CreatePartitions, v0-v3.  v2: flexible.  v3: may be throttled."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[Int32] = field(default_factory=list)


@struct
class CreatePartitionsTopic:
    name: str = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@message(key=37, versions="0-3", flexible=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: Int32 = 0
    validate_only: bool = False


@struct
class CreatePartitionsTopicResult:
    name: str = ""
    error_code: Int16 = 0
    error_message: str | None = None


@message(key=37, versions="0-3", flexible=2, response=True)
class CreatePartitionsResponse:
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
