"""CreateTopics, v2-v7.

v4: partition count and replication factor may be -1, the broker's default.  v5: flexible; the
answer carries the configs (KIP-525).  v6: may be throttled.  v7: topic ids.
"""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: Int32 = 0
    broker_ids: list[Int32] = field(default_factory=list)


@struct
class CreatableTopicConfig:
    name: str = ""
    value: str | None = ""


@struct
class CreatableTopic:
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@message(key=19, versions="2-7", flexible=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: Int32 = 60000
    validate_only: bool = False


@struct
class CreatableTopicConfigs:
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Int8 = -1
    is_sensitive: bool = False


@struct
class CreatableTopicResult:
    name: str = ""
    topic_id: Uuid = field("7+", default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: str | None = ""
    topic_config_error_code: Int16 = field("5+", tag=0, default=0)
    num_partitions: Int32 = field("5+", default=-1)
    replication_factor: Int16 = field("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field("5+", default_factory=list)


@message(key=19, versions="2-7", flexible=5, response=True)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
