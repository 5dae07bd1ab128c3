"""Control records, and the state of the quorum.

The key of a control record and the value of a transaction marker follow their version
(`codec.write_versioned`); the other values begin with a field that repeats it.  QuorumStateData is
the content of the file `quorum-state`, there as JSON.
"""

from penstock.wire.primitives import ZERO_UUID, Int16, Int32, Int64, Uuid
from penstock.wire.schema import field, record, struct
from penstock.wire.structures import KRaftVersionFeature, Listener


@struct
class LeaderChangeVoter:
    voter_id: Int32 = 0
    voter_directory_id: Uuid = field("1+", default=ZERO_UUID)


@record(versions="0-1", flexible=0)
class LeaderChangeMessage:
    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[LeaderChangeVoter] = field(default_factory=list)
    granting_voters: list[LeaderChangeVoter] = field(default_factory=list)


@record(versions="0", flexible=0)
class SnapshotHeaderRecord:
    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


@record(versions="0", flexible=0)
class SnapshotFooterRecord:
    version: Int16 = 0


@record(versions="0", flexible=0)
class KRaftVersionRecord:
    version: Int16 = 0
    kraft_version: Int16 = 0


@struct
class VotersRecordVoter:
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: list[Listener] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@record(versions="0", flexible=0)
class VotersRecord:
    version: Int16 = 0
    voters: list[VotersRecordVoter] = field(default_factory=list)


@record(versions="0")
class EndTxnMarker:
    """The value of a commit or abort marker."""

    coordinator_epoch: Int32 = 0


@record(versions="0")
class ControlRecordTypeSchema:
    """The key of a control record."""

    type: Int16 = 0


@struct
class QuorumStateVoter:
    voter_id: Int32 = 0


@record(versions="0-1", flexible=0)
class QuorumStateData:
    cluster_id: str = field("0", default="")
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    voted_id: Int32 = -1
    voted_directory_id: Uuid = field("1+", default=ZERO_UUID)
    applied_offset: Int64 = field("0", default=0)
    current_voters: list[QuorumStateVoter] | None = field("0", default_factory=list)
