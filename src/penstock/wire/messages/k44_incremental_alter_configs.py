"""IncrementalAlterConfigs, v0-v1.  v1: flexible."""

from penstock.wire.primitives import Int8, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import AlterConfigsResourceResponse


@struct
class AlterableConfig:
    name: str = ""
    config_operation: Int8 = 0
    value: str | None = ""


@struct
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(key=44, versions="0-1", flexible=1)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@message(key=44, versions="0-1", flexible=1, response=True)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
