"""BrokerHeartbeat, v0-v2.  v1: offline log directories.  v2: cordoned log directories."""

from penstock.wire.primitives import Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, message


@message(key=63, versions="0-2", flexible=0)
class BrokerHeartbeatRequest:
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    current_metadata_offset: Int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[Uuid] = field("1+", tag=0, default_factory=list)
    cordoned_log_dirs: list[Uuid] | None = field("2+", tag=1, default=None)


@message(key=63, versions="0-2", flexible=0, response=True)
class BrokerHeartbeatResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
