"""State of one replica of the metadata log, and its transitions between roles.

Invariants: the epoch never falls; a vote and a leader never change within an epoch; the high
watermark never falls. Rules of each role are in election.py, leadership.py and follower.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.model import ZERO_ID
from penstock.raft.leader_change import leader_change_messages
from penstock.raft.log_view import LogView
from penstock.raft.quorum_effects import (
    AppendControl,
    ControlMessage,
    DropDownload,
    HighWatermarkMoved,
    LeaderChanged,
    LeadershipGained,
    LeadershipLost,
    PersistElection,
    QuorumEffect,
    SendRequest,
    SyncLog,
)
from penstock.raft.quorum_events import QuorumRequest
from penstock.raft.quorum_state import NO_NODE, QuorumState
from penstock.raft.replica_key import ReplicaKey
from penstock.raft.requests_in_flight import OutstandingRequests
from penstock.raft.roles import (
    FOREVER,
    UNKNOWN_OFFSET,
    CandidateRole,
    FollowerRole,
    LeaderRole,
    ParkedReplicaFetch,
    ProspectiveRole,
    QuorumRole,
    ReplicaProgress,
    ResignedRole,
    UnattachedRole,
    VoteTally,
)
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import QuorumVoter, VoterEndpoint, Voters

CHECK_QUORUM_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """Settings of a replica; the defaults are Kafka's.

    `bootstrap_ids` are the nodes that a replica without a leader asks; without any it asks the
    voters. `may_become_voter` is true of controllers: they sync before each fetch.
    """

    cluster_id: str
    bootstrap_ids: tuple[int, ...] = ()
    may_become_voter: bool = True
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_ms_max: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_wait_ms_max: int = 500
    fetch_bytes_max: int = 1024 * 1024
    fetch_snapshot_bytes_max: int = 1024 * 1024


class RaftReplica:
    """One replica. `random_below(n)` returns a number from 0 to n - 1."""

    def __init__(
        self,
        me: QuorumVoter,
        settings: ReplicaSettings,
        log: LogView,
        history: VoterHistory,
        random_below: Callable[[int], int],
    ) -> None:
        self.me = me
        self.key = ReplicaKey(me.node_id, me.directory_id)
        self.settings = settings
        self.log = log
        self.history = history
        self.random_below = random_below
        self.election = QuorumState()
        self.role: QuorumRole = UnattachedRole(FOREVER)
        self.leader_endpoint: VoterEndpoint | None = None
        self.high_watermark = UNKNOWN_OFFSET
        self.installing: MetadataSnapshotId | None = None
        self.sync_end_offset: int | None = None  # the end of the log when the sync began
        self.shutting_down = False
        self._voters_seen: Voters | None = None
        self._is_voter = False
        self.requests = OutstandingRequests(settings.request_timeout_ms, settings.retry_backoff_ms)
        self.released: list[ParkedReplicaFetch] = []  # fetches of a leadership that has ended
        self.effects: list[QuorumEffect] = []

    # -- questions

    @property
    def epoch(self) -> int:
        return self.election.leader_epoch

    @property
    def leader_id(self) -> int:
        return self.election.leader_id

    @property
    def has_leader(self) -> bool:
        return self.election.leader_id != NO_NODE

    @property
    def is_voter(self) -> bool:
        if self._voters_seen is not self.history.latest:
            self._voters_seen = self.history.latest
            self._is_voter = self.history.is_voter(self.key)
        return self._is_voter

    @property
    def is_only_voter(self) -> bool:
        return len(self.history.latest) == 1 and self.is_voter

    @property
    def voted_key(self) -> ReplicaKey | None:
        if self.election.voted_id == NO_NODE:
            return None
        return ReplicaKey(self.election.voted_id, self.election.voted_directory_id)

    def random_election_ms(self) -> float:
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + (self.random_below(timeout_ms) if timeout_ms else 0)

    def endpoint_of(self, node_id: int) -> VoterEndpoint | None:
        if node_id == self.me.node_id:
            return self.me.endpoints[0] if self.me.endpoints else None
        if node_id == self.leader_id and self.leader_endpoint is not None:
            return self.leader_endpoint
        voter = self.history.find(node_id)
        return voter.endpoints[0] if voter is not None and voter.endpoints else None

    # -- effects

    def send(self, node_id: int, request: QuorumRequest, now_ms: float) -> None:
        request_id = self.requests.begin(node_id, request, now_ms)
        self.effects.append(SendRequest(request_id, node_id, self.endpoint_of(node_id), request))

    def sync_if_needed(self) -> None:
        """Ask for a sync of the log, one at a time; replicas that never vote need none."""
        if self.sync_end_offset is not None or not (
            self.settings.may_become_voter or self.is_voter
        ):
            return
        if self.log.synced_offset < self.log.end_offset:
            self.sync_end_offset = self.log.end_offset
            self.effects.append(SyncLog())

    @property
    def is_synced(self) -> bool:
        """Return whether this replica may state the end of its log to others."""
        if not (self.settings.may_become_voter or self.is_voter):
            return True
        return self.log.synced_offset == self.log.end_offset

    def commit(self, offset: int) -> None:
        if offset > self.high_watermark:
            assert offset <= self.log.end_offset, "committed records are in the log"
            self.high_watermark = offset
            self.effects.append(HighWatermarkMoved(offset))

    def truncate_log(self, offset: int) -> None:
        """Forget the records from `offset` on; the caller asks for the effect."""
        self.log.truncate(offset)
        self.history.truncate(offset)
        if self.sync_end_offset is not None:
            self.sync_end_offset = min(self.sync_end_offset, offset)

    # -- transitions

    def become_unattached(self, epoch: int, leader_id: int, now_ms: float) -> None:
        """Wait for a leader of `epoch`. Within an epoch the vote stays."""
        assert epoch > self.epoch or (
            epoch == self.epoch and isinstance(self.role, ProspectiveRole)
        ), "only a pre-election falls back within its epoch"
        deadline_ms = now_ms + self.random_election_ms()
        match self.role:
            case _ if not self.is_voter:
                deadline_ms = FOREVER
            case ProspectiveRole() if self.role.tally.is_rejected:
                pass
            case UnattachedRole() | ProspectiveRole() | CandidateRole() | ResignedRole():
                # An election timeout goes on: peers cannot postpone this election for ever.
                if self.role.election_deadline_ms != FOREVER:
                    deadline_ms = self.role.election_deadline_ms
        voted = self.election if epoch == self.epoch else QuorumState()
        self._leave_role()
        self._elect(
            QuorumState(epoch, leader_id, voted.voted_id, voted.voted_directory_id), endpoint=None
        )
        self.role = UnattachedRole(deadline_ms)

    def grant_vote(self, candidate: ReplicaKey, now_ms: float) -> None:
        """Vote in the present epoch, once; the election timeout begins again."""
        assert isinstance(self.role, UnattachedRole | ProspectiveRole), "other roles do not vote"
        assert self.voted_key is None, "a replica votes once in an epoch"
        self._elect(
            QuorumState(self.epoch, self.leader_id, candidate.node_id, candidate.directory_id),
            self.leader_endpoint,
        )
        deadline_ms = now_ms + self.random_election_ms()
        if isinstance(self.role, ProspectiveRole):
            self.requests.clear()
            tally = VoteTally(self.history.latest, self.me.node_id)
            self.role = ProspectiveRole(tally, deadline_ms)
        else:
            self.role = UnattachedRole(deadline_ms if self.is_voter else FOREVER)

    def become_prospective(self, now_ms: float) -> None:
        """Begin a pre-election, in the same epoch. The only voter is elected at once."""
        assert self.is_voter, "only voters are elected"
        self._leave_role()
        tally = VoteTally(self.history.latest, self.me.node_id)
        self.role = ProspectiveRole(tally, now_ms + self.random_election_ms())
        if tally.is_granted:
            self.become_candidate(now_ms)

    def become_candidate(self, now_ms: float) -> None:
        """Begin an election in the next epoch, with the own vote."""
        assert self.is_voter, "only voters are elected"
        assert isinstance(self.role, ProspectiveRole), "a pre-election comes before each election"
        self._leave_role()
        self._elect(
            QuorumState(self.epoch + 1, NO_NODE, self.key.node_id, self.key.directory_id),
            endpoint=None,
        )
        self.enter_candidate(now_ms)

    def enter_candidate(self, now_ms: float) -> None:
        tally = VoteTally(self.history.latest, self.me.node_id)
        self.role = CandidateRole(tally, now_ms + self.random_election_ms())
        if tally.is_granted:
            self.become_leader(now_ms)

    def become_leader(self, now_ms: float) -> None:
        """Lead the epoch, and append its first batch."""
        assert isinstance(self.role, CandidateRole), "only a candidate becomes the leader"
        assert self.role.tally.is_granted, "a majority elects the leader"
        granting = self.role.tally.granting
        start = self.log.end._replace(epoch=self.epoch)
        self._leave_role()
        # The state keeps no vote: a restarted leader resigns, and votes for none in its epoch.
        self._elect(QuorumState(self.epoch, self.me.node_id, NO_NODE, ZERO_ID), endpoint=None)
        messages = leader_change_messages(self.me, self.history, granting)
        self._append_control(messages)
        self.role = LeaderRole(
            start,
            {
                voter.node_id: ReplicaProgress(ReplicaKey(voter.node_id, voter.directory_id))
                for voter in self.history.latest
            },
            check_quorum_deadline_ms=now_ms + self.check_quorum_ms,
            begin_epoch_at_ms=now_ms,
        )
        self.effects.append(LeadershipGained(self.epoch, start.end_offset))

    @property
    def check_quorum_ms(self) -> float:
        return self.settings.fetch_timeout_ms * CHECK_QUORUM_FACTOR

    def _append_control(self, messages: tuple[ControlMessage, ...]) -> None:
        base_offset = self.log.end_offset
        self.log.append(base_offset, base_offset + len(messages), self.epoch)
        self.history.add_all(base_offset, messages)
        self.effects.append(AppendControl(base_offset, self.epoch, messages))

    def become_follower(
        self, epoch: int, leader_id: int, endpoint: VoterEndpoint | None, now_ms: float
    ) -> None:
        """Fetch from the leader of an epoch; a leader without address has to be found first."""
        assert leader_id != self.me.node_id, "a replica does not follow itself"
        assert epoch >= self.epoch, "the epoch never falls"
        endpoint = endpoint or self.endpoint_of(leader_id)
        voted = self.election if epoch == self.epoch else QuorumState()
        self._leave_role()
        self._elect(
            QuorumState(epoch, leader_id, voted.voted_id, voted.voted_directory_id), endpoint
        )
        self.role = FollowerRole(now_ms + self.settings.fetch_timeout_ms)

    def become_resigned(self, successors: tuple[ReplicaKey, ...], now_ms: float) -> None:
        """Stop leading; the epoch stays until an election or the timeout ends it."""
        self._leave_role()
        others = [v.node_id for v in self.history.latest if v.node_id != self.me.node_id]
        self.role = ResignedRole(now_ms + self.random_election_ms(), others, successors)

    def _leave_role(self) -> None:
        """End the present role: its requests, parked fetches and downloads go with it."""
        self.requests.clear()
        match self.role:
            case LeaderRole():
                self.effects.append(LeadershipLost(self.epoch))
                self.released += self.role.parked.values()
            case FollowerRole() if self.role.download is not None:
                self.effects.append(DropDownload(self.role.download.snapshot_id))

    def _elect(self, election: QuorumState, endpoint: VoterEndpoint | None) -> None:
        before = self.election
        self.leader_endpoint = endpoint
        if election == before:
            return
        self.election = election
        self.effects.append(PersistElection(election))
        if (election.leader_epoch, election.leader_id) != (before.leader_epoch, before.leader_id):
            self.effects.append(LeaderChanged(election.leader_epoch, election.leader_id))
