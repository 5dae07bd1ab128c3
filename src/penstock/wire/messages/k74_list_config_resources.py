"""ListConfigResources, v0-v1.

v0: client metrics subscriptions only.  v1: any resource type (KIP-1142).
"""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@message(key=74, versions="0-1", flexible=0)
class ListConfigResourcesRequest:
    resource_types: list[Int8] = field("1+", default_factory=list)


@struct
class ConfigResource:
    resource_name: str = ""
    resource_type: Int8 = field("1+", default=16)


@message(key=74, versions="0-1", flexible=0, response=True)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
