"""RemoveRaftVoter, v0.  Takes a voter out of the metadata quorum (KIP-853)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import message


@message(key=81, versions="0", flexible=0)
class RemoveRaftVoterRequest:
    cluster_id: str | None = ""
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID


@message(key=81, versions="0", flexible=0, response=True)
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""
