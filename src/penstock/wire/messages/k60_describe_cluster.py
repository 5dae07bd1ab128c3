"""DescribeCluster, v0-v2.

v1: brokers or controllers (KIP-919).  v2: fenced brokers too (KIP-1073).
"""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@message(key=60, versions="0-2", flexible=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = False
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+", default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: str | None = None
    is_fenced: bool = field("2+", default=False)


@message(key=60, versions="0-2", flexible=0, response=True)
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: Int32 = -0x80000000
