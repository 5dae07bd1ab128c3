"""Metadata, v0-v13.

v1: null means all topics, an empty list none; v0 has no such difference.  v4: auto creation can be
disabled.  v5: offline replicas.  v7: leader epoch.  v8: authorized operations; v11 drops the
cluster's.  v9: flexible.  v10: topic ids.  v12: a topic may be requested by id alone.  v13:
top-level error.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct


@struct
class MetadataRequestTopic:
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    name: str | None = field(nullable="10+", default="")


@message(key=3, versions="0-13", flexible=9)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(nullable="1+", default_factory=list)
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    include_topic_authorized_operations: bool = field("8+", default=False)


@struct
class MetadataResponseBroker:
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = field("1+", default=None)


@struct
class MetadataResponsePartition:
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field("7+", default=-1)
    replica_nodes: list[Int32] = field(default_factory=list)
    isr_nodes: list[Int32] = field(default_factory=list)
    offline_replicas: list[Int32] = field("5+", default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: Int16 = 0
    name: str | None = field(nullable="12+", default="")
    topic_id: Uuid = field("10+", default=ZERO_UUID)
    is_internal: bool = field("1+", default=False)
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Int32 = field("8+", default=-0x80000000)


@message(key=3, versions="0-13", flexible=9, response=True)
class MetadataResponse:
    throttle_time_ms: Int32 = field("3+", default=0)
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = field("2+", default=None)
    controller_id: Int32 = field("1+", default=-1)
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Int32 = field("8-10", default=-0x80000000)
    error_code: Int16 = field("13+", default=0)
