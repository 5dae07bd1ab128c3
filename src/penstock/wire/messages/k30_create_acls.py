"""CreateAcls, v1-v3.  v1: pattern types.  v2: flexible.  v3: users as resources."""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@struct
class AclCreation:
    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@message(key=30, versions="1-3", flexible=2)
class CreateAclsRequest:
    creations: list[AclCreation] = field(default_factory=list)


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: str | None = ""


@message(key=30, versions="1-3", flexible=2, response=True)
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = field(default_factory=list)
