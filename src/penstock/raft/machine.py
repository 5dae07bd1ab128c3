"""The metadata quorum as a pure machine: an event and the time in, effects out.

QuorumMachine is one replica of any number of voters and observers. The machine reads no clock, no
disk, no socket and no randomness: the shell performs its effects in order (quorum_effects.py),
reports events (quorum_events.py), and calls it with TimePassed when `wake_up_ms` has come.
"""

from collections.abc import Callable

from penstock.raft.election import (
    handle_vote,
    handle_vote_answer,
    poll_nominee,
    poll_resigned,
)
from penstock.raft.epoch_requests import (
    handle_begin_epoch,
    handle_end_epoch,
    handle_epoch_answer,
)
from penstock.raft.fetch_service import (
    answer_expired,
    answer_parked,
    answer_released,
    handle_fetch,
    handle_fetch_snapshot,
)
from penstock.raft.follower import (
    fetch_from_any,
    handle_fetch_answer,
    handle_snapshot_answer,
    install_snapshot,
    note_batch,
    poll_follower,
)
from penstock.raft.leadership import (
    advance_high_watermark,
    check_quorum_deadline,
    follow_voters,
    poll_leader,
    successors_of,
)
from penstock.raft.log_view import LogView, StoredSnapshot
from penstock.raft.quorum_effects import CutLog, PersistElection, QuorumEffect, SendReply, in_order
from penstock.raft.quorum_events import (
    AnswerArrived,
    LeaderAppended,
    LogSynced,
    QuorumEvent,
    QuorumRequest,
    RequestArrived,
    RequestFailed,
    ResignRequested,
    ShutdownRequested,
    SnapshotInstalled,
    SnapshotRejected,
    SnapshotWritten,
    TimePassed,
)
from penstock.raft.quorum_state import NO_NODE, QuorumState
from penstock.raft.replica import RaftReplica, ReplicaSettings
from penstock.raft.roles import (
    FOREVER,
    CandidateRole,
    FollowerRole,
    LeaderRole,
    ProspectiveRole,
    ResignedRole,
    UnattachedRole,
)
from penstock.raft.snapshot import MetadataSnapshotId
from penstock.raft.voter_history import VoterHistory
from penstock.raft.voters import QuorumVoter
from penstock.wire.batch import batch_headers
from penstock.wire.messages.k01_fetch import FetchRequest, FetchResponse
from penstock.wire.messages.k52_vote import VoteRequest, VoteResponse
from penstock.wire.messages.k53_begin_quorum_epoch import BeginQuorumEpochRequest
from penstock.wire.messages.k54_end_quorum_epoch import EndQuorumEpochRequest
from penstock.wire.messages.k59_fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

SNAPSHOTS_KEPT = 2  # the newest, and the one before for downloads that have begun
TRANSITIONS_PER_STEP_MAX = 8


class QuorumMachine:
    """One replica of the metadata log."""

    def __init__(
        self,
        me: QuorumVoter,
        settings: ReplicaSettings,
        log: LogView,
        history: VoterHistory,
        random_below: Callable[[int], int],
    ) -> None:
        self.replica = RaftReplica(me, settings, log, history, random_below)

    # -- questions of the shell

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def leader_id(self) -> int:
        return self.replica.leader_id

    @property
    def is_leader(self) -> bool:
        return isinstance(self.replica.role, LeaderRole)

    @property
    def end_offset(self) -> int:
        return self.replica.log.end_offset

    @property
    def high_watermark(self) -> int:
        """Return the committed offset as this replica knows it; -1 before it knows any."""
        return self.replica.high_watermark

    @property
    def may_stop(self) -> bool:
        """Return whether a shutdown is complete: no other node waits for this one's leadership."""
        replica = self.replica
        has_successor = replica.has_leader and replica.leader_id != replica.me.node_id
        return not replica.is_voter or replica.is_only_voter or has_successor

    def next_snapshot_id(self) -> MetadataSnapshotId | None:
        """Return the id of a snapshot of all committed records; None if there are no new ones."""
        replica = self.replica
        offset = replica.high_watermark
        latest = replica.log.latest_snapshot
        if replica.installing is not None or offset <= replica.log.start_offset:
            return None
        if latest is not None and latest.end_offset >= offset:
            return None
        return MetadataSnapshotId(offset, replica.log.epoch_before(offset))

    @property
    def wake_up_ms(self) -> float:
        """Return the time of the next TimePassed; FOREVER without any."""
        replica = self.replica
        deadline_ms = replica.requests.deadline_ms
        match replica.role:
            case LeaderRole() as role:
                parked_ms = min(
                    (each.deadline_ms for each in role.parked.values()), default=FOREVER
                )
                own_ms = min(check_quorum_deadline(role), role.begin_epoch_at_ms, parked_ms)
            case FollowerRole() as role:
                waits = replica.is_voter and replica.installing is None
                own_ms = role.fetch_deadline_ms if waits else FOREVER
            case UnattachedRole() as role:
                waits = replica.is_voter and replica.installing is None
                own_ms = role.election_deadline_ms if waits else FOREVER
            case role:
                own_ms = role.election_deadline_ms
        if replica.shutting_down and not isinstance(replica.role, LeaderRole):
            own_ms = FOREVER
        return min(deadline_ms, own_ms)

    # -- events

    def start(self, stored: QuorumState | None, now_ms: float) -> list[QuorumEffect]:
        """Take the role that the stored state of the last life calls for."""
        replica = self.replica
        election = stored or QuorumState()
        last_epoch = replica.log.last_epoch
        if election.leader_epoch < last_epoch:
            election = QuorumState(leader_epoch=last_epoch)
        replica.election = election
        # The last life may have been killed before its state was durable.
        replica.effects.append(PersistElection(election))
        # With kraft.version 0 the stored vote has no directory.
        voted_for_me = replica.voted_key is not None and replica.voted_key.names(replica.key)
        if election.leader_id == replica.me.node_id:
            # A leader that lost unsynced records must not write others under the same epoch.
            replica.become_resigned((), now_ms)
        elif voted_for_me and replica.is_voter:
            replica.enter_candidate(now_ms)
        elif election.leader_id != NO_NODE:
            replica.become_follower(election.leader_epoch, election.leader_id, None, now_ms)
        else:
            waits_ms = replica.random_election_ms() if replica.is_voter else FOREVER
            replica.role = UnattachedRole(now_ms + waits_ms)
        if replica.is_only_voter and not isinstance(replica.role, LeaderRole):
            replica.become_prospective(now_ms)
        return self._finish(now_ms)

    def step(self, event: QuorumEvent, now_ms: float) -> list[QuorumEffect]:
        """Handle one event; return the effects in the order in which they are performed."""
        replica = self.replica
        match event:
            case RequestArrived():
                self._answer(event.reply_to, event.request, now_ms)
            case AnswerArrived():
                self._take_answer(event, now_ms)
            case RequestFailed():
                asked = replica.requests.take(event.request_id)
                if asked is not None:
                    replica.requests.back_off(asked.node_id, now_ms)
            case LeaderAppended():
                self._note_own_append(event.data)
            case LogSynced():
                self._note_sync()
            case SnapshotWritten():
                self._keep_snapshot(StoredSnapshot(event.snapshot_id, event.size_bytes))
            case SnapshotInstalled():
                install_snapshot(replica, event, now_ms)
            case SnapshotRejected():
                assert replica.installing == event.snapshot_id, "one installation at a time"
                replica.installing = None
                replica.requests.back_off(replica.leader_id, now_ms)
            case ResignRequested():
                if isinstance(replica.role, LeaderRole) and event.epoch == replica.epoch:
                    replica.become_resigned(successors_of(replica, replica.role), now_ms)
            case ShutdownRequested():
                replica.shutting_down = True
            case TimePassed():
                pass
        return self._finish(now_ms)

    def _answer(self, reply_to: int, request: QuorumRequest, now_ms: float) -> None:
        replica = self.replica
        match request:
            case FetchRequest():
                handle_fetch(replica, reply_to, request, now_ms)
            case FetchSnapshotRequest():
                handle_fetch_snapshot(replica, reply_to, request, now_ms)
            case VoteRequest():
                replica.effects.append(SendReply(reply_to, handle_vote(replica, request, now_ms)))
            case BeginQuorumEpochRequest():
                response = handle_begin_epoch(replica, request, now_ms)
                replica.effects.append(SendReply(reply_to, response))
            case EndQuorumEpochRequest():
                replica.effects.append(
                    SendReply(reply_to, handle_end_epoch(replica, request, now_ms))
                )

    def _take_answer(self, event: AnswerArrived, now_ms: float) -> None:
        replica, response = self.replica, event.response
        asked = replica.requests.take(event.request_id)
        if asked is None:
            return
        match response:
            case FetchResponse():
                succeeded = handle_fetch_answer(replica, response, now_ms)
            case FetchSnapshotResponse():
                succeeded = handle_snapshot_answer(replica, response, now_ms)
            case VoteResponse():
                succeeded = handle_vote_answer(replica, asked, response, now_ms)
            case _:
                succeeded = handle_epoch_answer(replica, asked, response, now_ms)
        if not succeeded:
            replica.requests.back_off(asked.node_id, now_ms)

    def _note_own_append(self, data: bytes) -> None:
        replica, role = self.replica, self.replica.role
        assert isinstance(role, LeaderRole), "the leader alone appends"
        for _, header in batch_headers(data):
            if note_batch(replica, memoryview(data), header):
                follow_voters(replica, role)
        answer_parked(replica, role)

    def _note_sync(self) -> None:
        replica = self.replica
        assert replica.sync_end_offset is not None, "a sync was asked for"
        replica.log.synced_offset = max(replica.log.synced_offset, replica.sync_end_offset)
        replica.sync_end_offset = None
        if isinstance(replica.role, LeaderRole) and advance_high_watermark(replica, replica.role):
            answer_parked(replica, replica.role)

    def _keep_snapshot(self, snapshot: StoredSnapshot) -> None:
        """Note a snapshot; cut the log up to the oldest snapshot that is kept."""
        replica, log = self.replica, self.replica.log
        end_offset = snapshot.id.end_offset
        latest = log.latest_snapshot
        if latest is not None and latest.end_offset >= end_offset:
            return  # a newer snapshot was installed meanwhile
        assert end_offset <= replica.high_watermark, "a snapshot holds committed records only"
        log.snapshots.append(snapshot)
        forgotten = tuple(each.id for each in log.snapshots[:-SNAPSHOTS_KEPT])
        del log.snapshots[:-SNAPSHOTS_KEPT]
        start_offset = log.snapshots[0].id.end_offset
        log.cut(start_offset)
        replica.history.forget_before(start_offset)
        replica.effects.append(CutLog(start_offset, forgotten))

    def _finish(self, now_ms: float) -> list[QuorumEffect]:
        """Do all that is due, and return the effects of the step."""
        replica = self.replica
        replica.requests.expire(now_ms)
        transitions = 0
        while self._poll(now_ms):
            transitions += 1
            assert transitions < TRANSITIONS_PER_STEP_MAX, "roles settle within a step"
        replica.sync_if_needed()
        if replica.released:
            answer_released(replica)
        effects, replica.effects = replica.effects, []
        return in_order(effects)

    def _poll(self, now_ms: float) -> bool:
        """Do what is due in the present role; return whether the role changed."""
        replica = self.replica
        match replica.role:
            case LeaderRole() as role:
                answer_expired(replica, role, now_ms)
                return poll_leader(replica, role, now_ms)
            case FollowerRole() as role:
                return poll_follower(replica, role, now_ms)
            case UnattachedRole() as role:
                may_elect = replica.is_voter and not replica.shutting_down
                installs = replica.installing is not None
                if may_elect and not installs and now_ms >= role.election_deadline_ms:
                    replica.become_prospective(now_ms)
                    return True
                if not replica.shutting_down:
                    fetch_from_any(replica, now_ms)
                return False
            case ProspectiveRole() | CandidateRole() as nominee:
                return poll_nominee(replica, nominee, now_ms)
            case ResignedRole() as role:
                return poll_resigned(replica, role, now_ms)
