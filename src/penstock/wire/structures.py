"""Structures that several messages and records share; versions are those of the message."""

from penstock.wire.primitives import ZERO_UUID, Int8, Int16, Int32, Int64, UInt16, Uuid
from penstock.wire.schema import field, struct

# -- nodes


@struct
class NodeEndpoint:
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None


@struct
class QuorumNodeEndpoint:
    node_id: Int32 = 0
    host: str = ""
    port: UInt16 = 0


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: UInt16 = 0


@struct
class RegisteredListener:
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class RegisteredFeature:
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@struct
class KRaftVersionFeature:
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


# -- partitions


@struct
class PartitionError:
    partition_index: Int32 = 0
    error_code: Int16 = 0


@struct
class TopicErrors:
    name: str = ""
    partitions: list[PartitionError] = field(default_factory=list)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class TopicIdPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = field(default_factory=list)


@struct
class NamedTopicIdPartitions:
    topic_id: Uuid = ZERO_UUID
    topic_name: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class QuorumPartitionResult:
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class QuorumTopicResult:
    topic_name: str = ""
    partitions: list[QuorumPartitionResult] = field(default_factory=list)


# -- settings and access


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""


@struct
class TokenPrincipal:
    principal_type: str = ""
    principal_name: str = ""


@struct
class EntityData:
    entity_type: str = ""
    entity_name: str | None = ""


# -- share groups


@struct
class AcknowledgementBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = field(default_factory=list)


@struct
class AcknowledgePartition:
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(default_factory=list)


@struct
class AcknowledgeTopic:
    topic_id: Uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(default_factory=list)


@struct
class StateBatch:
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@struct
class ReadStatePartition:
    partition: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class ReadStateTopic:
    topic_id: Uuid = ZERO_UUID
    partitions: list[ReadStatePartition] = field(default_factory=list)


@struct
class StatePartitionResult:
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None


@struct
class StateTopicResult:
    topic_id: Uuid = ZERO_UUID
    partitions: list[StatePartitionResult] = field(default_factory=list)


# -- streams groups


@struct
class KeyValue:
    key: str = ""
    value: str = ""


@struct
class Endpoint:
    host: str = ""
    port: UInt16 = 0


@struct
class TaskIds:
    subtopology_id: str = ""
    partitions: list[Int32] = field(default_factory=list)


@struct
class TaskOffset:
    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


@struct
class TopicInfo:
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = field(default_factory=list)


@struct
class CopartitionGroup:
    source_topics: list[Int16] = field(default_factory=list)
    source_topic_regex: list[Int16] = field(default_factory=list)
    repartition_source_topics: list[Int16] = field(default_factory=list)


@struct
class Subtopology:
    subtopology_id: str = ""
    source_topics: list[str] = field(default_factory=list)
    source_topic_regex: list[str] = field(default_factory=list)
    state_changelog_topics: list[TopicInfo] = field(default_factory=list)
    repartition_sink_topics: list[str] = field(default_factory=list)
    repartition_source_topics: list[TopicInfo] = field(default_factory=list)
    copartition_groups: list[CopartitionGroup] = field(default_factory=list)
