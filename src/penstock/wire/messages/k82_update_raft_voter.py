"""UpdateRaftVoter, v0.  A voter's own endpoints and features (KIP-853)."""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Uuid
from penstock.wire.schema import field, message, struct
from penstock.wire.structures import KRaftVersionFeature, Listener


@message(key=82, versions="0", flexible=0)
class UpdateRaftVoterRequest:
    cluster_id: str | None = ""
    current_leader_epoch: Int32 = 0
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@struct
class CurrentLeader:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str = ""
    port: Int32 = 0


@message(key=82, versions="0", flexible=0, response=True)
class UpdateRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    current_leader: CurrentLeader = field(tag=0, default_factory=CurrentLeader)
