"""DeleteGroups, v0-v2.  v2: flexible."""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@message(key=42, versions="0-2", flexible=2)
class DeleteGroupsRequest:
    groups_names: list[str] = field(default_factory=list)


@struct
class DeletableGroupResult:
    group_id: str = ""
    error_code: Int16 = 0


@message(key=42, versions="0-2", flexible=2, response=True)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
