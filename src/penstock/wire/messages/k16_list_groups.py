"""ListGroups, v0-v5.

v3: flexible.  v4: filter by state (KIP-518).  v5: filter by type (KIP-848).
"""

from penstock.wire.primitives import Int16, Int32
from penstock.wire.schema import field, message, struct


@message(key=16, versions="0-5", flexible=3)
class ListGroupsRequest:
    states_filter: list[str] = field("4+", default_factory=list)
    types_filter: list[str] = field("5+", default_factory=list)


@struct
class ListedGroup:
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = field("4+", default="")
    group_type: str = field("5+", default="")


@message(key=16, versions="0-5", flexible=3, response=True)
class ListGroupsResponse:
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
