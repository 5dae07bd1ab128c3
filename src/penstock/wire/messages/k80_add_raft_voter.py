"""AddRaftVoter, v0-v1.  v1: the response need not wait for the commit."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message
from penstock.wire.structures import Listener


@message(key=80, versions="0-1", flexible=0)
class AddRaftVoterRequest:
    cluster_id: str | None = ""
    timeout_ms: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    ack_when_committed: bool = field("1+", default=True)


@message(key=80, versions="0-1", flexible=0, response=True)
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
