"""FindCoordinator, v0-v6.

v1: key type, for transactions.  v3: flexible.  v4: many keys in one request (KIP-699).  v6:
share groups; their key is group:topic:partition.
"""

from penstock.wire.primitives import Int8, Int16, Int32
from penstock.wire.schema import field, message, struct


@message(key=10, versions="0-6", flexible=3)
class FindCoordinatorRequest:
    key: str = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)
    coordinator_keys: list[str] = field("4+", default_factory=list)


@struct
class Coordinator:
    key: str = ""
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


@message(key=10, versions="0-6", flexible=3, response=True)
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field("0-3", default=0)
    error_message: str | None = field("1-3", default="")
    node_id: Int32 = field("0-3", default=0)
    host: str = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", default_factory=list)
