"""AlterConfigs, v0-v2.  Replaces all settings of a resource.  v2: flexible."""

from penstock.wire.primitives import Int8, Int32
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import AlterConfigsResourceResponse


@struct
class AlterableConfig:
    name: str = ""
    value: str | None = ""


@struct
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@message(key=33, versions="0-2", flexible=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


@message(key=33, versions="0-2", flexible=2, response=True)
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)
