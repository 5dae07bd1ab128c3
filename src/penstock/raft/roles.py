"""Roles of a replica in an epoch, each with the state that lives as long as the role.

Times are on the monotonic clock of the node; FOREVER is a deadline that never comes.
"""

from dataclasses import dataclass, field

from penstock.raft.log_view import EpochEnd
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voters import Voters
from penstock.wire.messages.k01_fetch import FetchRequest

FOREVER = float("inf")
UNKNOWN_OFFSET = -1
NEVER_MS = -1.0


class VoteTally:
    """Votes of one election or pre-election; the own vote is granted from the start."""

    def __init__(self, voters: Voters, me: int) -> None:
        self._votes: dict[int, bool | None] = {voter.node_id: None for voter in voters}
        self._majority = len(voters) // 2 + 1
        self._votes[me] = True

    def record(self, node_id: int, *, granted: bool) -> None:
        """Count the answer of a voter once; an answer of another node counts nothing."""
        if node_id in self._votes and self._votes[node_id] is None:
            self._votes[node_id] = granted

    @property
    def is_granted(self) -> bool:
        return sum(vote is True for vote in self._votes.values()) >= self._majority

    @property
    def is_rejected(self) -> bool:
        possible = sum(vote is not False for vote in self._votes.values())
        return possible < self._majority

    @property
    def granting(self) -> list[int]:
        return [voter for voter, vote in self._votes.items() if vote]

    @property
    def undecided(self) -> list[int]:
        return [voter for voter, vote in self._votes.items() if vote is None]


@dataclass(slots=True)
class UnattachedRole:
    """The replica knows its epoch, and no leader that it could fetch from."""

    election_deadline_ms: float


@dataclass(slots=True)
class ProspectiveRole:
    """The replica asks whether it would be elected (pre-vote, KIP-996)."""

    tally: VoteTally
    election_deadline_ms: float


@dataclass(slots=True)
class CandidateRole:
    """The replica has voted for itself."""

    tally: VoteTally
    election_deadline_ms: float


@dataclass(slots=True)
class SnapshotDownload:
    """A snapshot on its way from the leader."""

    snapshot_id: MetadataSnapshotId
    position: int = 0


@dataclass(slots=True)
class FollowerRole:
    """The replica fetches from the leader of its epoch."""

    fetch_deadline_ms: float
    has_fetched: bool = False
    download: SnapshotDownload | None = None


@dataclass(slots=True)
class ResignedRole:
    """The replica has led its epoch, and asks the others to elect another leader."""

    election_deadline_ms: float
    unacknowledged: list[int]
    successors: tuple[ReplicaKey, ...] = ()


@dataclass(slots=True)
class ReplicaProgress:
    """A replica, as its leader knows it by its fetches."""

    key: ReplicaKey
    end_offset: int = UNKNOWN_OFFSET
    last_fetch_ms: float = NEVER_MS
    caught_up_ms: float = NEVER_MS
    leader_end_offset: int = UNKNOWN_OFFSET  # the end of the leader's log at the last fetch


@dataclass(frozen=True, slots=True)
class ParkedReplicaFetch:
    """A fetch that waits for records or for a higher watermark."""

    reply_to: int
    request: FetchRequest
    deadline_ms: float


@dataclass(slots=True)
class LeaderRole:
    """The replica leads its epoch. The high watermark is unknown until the epoch has one."""

    start: EpochEnd  # the epoch, and the end of the log before its first batch
    voters: dict[int, ReplicaProgress]
    check_quorum_deadline_ms: float
    begin_epoch_at_ms: float
    observers: dict[ReplicaKey, ReplicaProgress] = field(default_factory=dict)
    fetched_voters: list[int] = field(default_factory=list)
    high_watermark: int = UNKNOWN_OFFSET
    parked: dict[int, ParkedReplicaFetch] = field(default_factory=dict)


QuorumRole = (
    UnattachedRole | ProspectiveRole | CandidateRole | FollowerRole | LeaderRole | ResignedRole
)
