"""Leader side of one partition: knows the in-sync set and the followers, moves the high watermark.

The in-sync set is *committed* by the controller. A leader proposes one change at a time. Until the
answer the *maximal* set counts: the larger one of old and new.
Invariant: within an epoch the high watermark of a leader never moves back.
Reads no clock and no file; `follower.py` is the other half.
"""

from collections.abc import Callable

from penstock.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, UnknownLeaderEpoch
from penstock.model import NO_LEADER_EPOCH
from penstock.replication.follower_progress import (
    NO_FETCH_YET,
    UNKNOWN_END,
    FetchContact,
    FollowerProgress,
)
from penstock.replication.isr_proposal import NO_BROKER_EPOCH, IsrProposal, RejectedChange, judge

LAG_MS_MAX = 30_000  # Kafka's default of replica.lag.time.max.ms


def _always_eligible(_replica_id: int, _broker_epoch: int) -> bool:
    return True


def _no_epoch(_replica_id: int) -> int:
    return NO_BROKER_EPOCH


class PartitionLeader:
    """State of one leadership of a partition. Plain ints: this is on the hot path.

    While the node follows, the object holds the high watermark only: `isr` is empty then.
    `is_eligible(replica_id, broker_epoch)` tells whether the broker is unfenced, not in controlled
    shutdown, and registered with that epoch (-1 passes). `live_epoch(replica_id)` is the epoch of
    an unfenced broker, -1 for all others.
    """

    __slots__ = (
        "_counted_end",
        "_is_eligible",
        "_live_epoch",
        "_now_ms",
        "_pending_isr",
        "epoch",
        "epoch_start",
        "followers",
        "high_watermark",
        "isr",
        "lag_ms_max",
        "leading",
        "log_end",
        "min_insync",
        "node_id",
        "partition_epoch",
        "pending",
        "replicas",
    )

    def __init__(
        self,
        node_id: int,
        epoch: int,
        isr: tuple[int, ...],
        high_watermark: int,
        *,
        replicas: tuple[int, ...] | None = None,
        partition_epoch: int = 0,
        is_eligible: Callable[[int, int], bool] = _always_eligible,
        live_epoch: Callable[[int], int] = _no_epoch,
        lag_ms_max: float = LAG_MS_MAX,
    ) -> None:
        assert not isr or node_id in isr, "a leader is in its own in-sync set"
        self.node_id = node_id
        self.epoch = epoch
        self.partition_epoch = partition_epoch
        self.isr = isr
        self.replicas = isr if replicas is None else replicas
        self.min_insync = 1
        self.high_watermark = high_watermark
        self.epoch_start = high_watermark
        self.log_end = high_watermark  # appended, synced or not
        self.lag_ms_max = lag_ms_max
        self.leading = False
        self.pending: IsrProposal | None = None
        self._pending_isr: tuple[int, ...] = ()
        others = () if replicas is None else replicas
        self.followers = {each: FollowerProgress(each) for each in others if each != node_id}
        self._counted_end = high_watermark
        self._now_ms = 0.0
        self._is_eligible = is_eligible
        self._live_epoch = live_epoch

    def require(self, min_insync: int, replicas: int) -> None:
        """Set the in-sync replicas that a record needs, at most the number of replicas. Kafka caps
        the setting so, too; otherwise nothing would ever be committed."""
        self.min_insync = min(min_insync, replicas)

    def check_epoch(self, epoch: int) -> None:
        """Raise for a client with another leader epoch; -1 means that the client sent none."""
        if epoch not in (NO_LEADER_EPOCH, self.epoch):
            raise FencedLeaderEpoch if epoch < self.epoch else UnknownLeaderEpoch

    # -- leadership and image

    def begin(
        self,
        epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        log_end: int,
        now_ms: float,
    ) -> None:
        """Begin to lead in `epoch`, from the end of the log on.

        A leader that led the epoch before keeps the ends of its followers; a new one knows none.
        The image may skip epochs in which another replica led, and the followers were truncated.
        The times begin again in both cases. `advance` has to follow: the set may have shrunk to
        this node alone.
        """
        assert self.node_id in isr, "a leader is in its own in-sync set"
        known = self.leading and epoch == self.epoch + 1
        self.leading = True
        self.epoch, self.partition_epoch = epoch, partition_epoch
        self.epoch_start = self.log_end = log_end
        self._now_ms = now_ms
        self._commit(isr)
        self._assign(replicas)
        if not known:
            self._counted_end = self.high_watermark
        for follower in self.followers.values():
            in_sync = follower.replica_id in isr
            follower.begin_epoch(log_end, now_ms, in_sync=in_sync, known=known)

    def follow(self, epoch: int, partition_epoch: int, replicas: tuple[int, ...]) -> None:
        """End the leadership, or note another leader's epoch; the high watermark stays."""
        self.leading = False
        self.epoch, self.partition_epoch = epoch, partition_epoch
        self.replicas = replicas
        self._commit(())
        self.followers = {}

    def update(
        self,
        partition_epoch: int,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        now_ms: float,
    ) -> bool:
        """Take over the image of the present leader epoch. Return whether the high watermark moved.

        The image ends a pending change that was proposed in an older partition epoch. An answer of
        the controller may come before the image, so older and equal partition epochs are no news.
        """
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self._commit(isr)
        self._assign(replicas)
        return bool(self.followers) and self._advance_with_followers(self._counted_end, now_ms)

    def _commit(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.pending, self._pending_isr = None, ()

    def _assign(self, replicas: tuple[int, ...]) -> None:
        if replicas == self.replicas and len(self.followers) == len(replicas) - 1:
            return
        self.replicas = replicas
        known = self.followers
        self.followers = {
            each: known.get(each) or FollowerProgress(each)
            for each in replicas
            if each != self.node_id
        }

    # -- the high watermark

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Return the in-sync set with a replica that a pending change adds. A replica that a
        pending change removes is still in it."""
        return self._pending_isr or self.isr

    @property
    def is_followed(self) -> bool:
        """Return whether each replica that may lead next has fetched in this leadership. A former
        leader that has not may hold records that this log lacks, and lead with them. With a whole
        set no other replica is eligible."""
        if not self.may_commit():
            return False
        followers = [self.followers.get(each) for each in self.maximal_isr if each != self.node_id]
        return all(each is not None and each.end != UNKNOWN_END for each in followers)

    @property
    def below_min_insync(self) -> bool:
        """Return whether acks=all is rejected before the append: the committed set counts."""
        return len(self.isr) < self.min_insync

    @property
    def below_min_insync_at_ack(self) -> bool:
        """Return whether a record below the high watermark is acknowledged with
        NOT_ENOUGH_REPLICAS_AFTER_APPEND: the maximal set counts."""
        return len(self.maximal_isr) < self.min_insync

    @property
    def latest_is_known(self) -> bool:
        """Return whether clients may ask for the latest offset. A new leader knows it once all
        records of earlier epochs are committed; OFFSET_NOT_AVAILABLE until then."""
        return self.high_watermark >= self.epoch_start

    def appended(self, log_end: int) -> None:
        """Note the end of the log after an append. Without followers no call is needed."""
        if log_end == self.log_end:
            return
        self.log_end = log_end
        for follower in self.followers.values():
            follower.fall_behind()

    def advance(self, counted_end: int, now_ms: float = 0.0) -> bool:
        """Count the leader's own log up to `counted_end`. Return whether the high watermark moved.

        While the in-sync set is below min.insync.replicas nothing is committed, for acks=1
        either: a consumer could see records that the next leader lacks.
        """
        if self.followers:
            return self._advance_with_followers(counted_end, now_ms)
        if counted_end <= self.high_watermark or len(self.isr) < self.min_insync:
            return False
        self.high_watermark = counted_end
        return True

    def _advance_with_followers(self, counted_end: int, now_ms: float) -> bool:
        """Move the high watermark to the smallest end of the maximal set and of those about to
        join."""
        self._counted_end = counted_end
        self._now_ms = now_ms
        if counted_end <= self.high_watermark or not self.may_commit():
            return False
        high_watermark = counted_end
        maximal = self.maximal_isr
        for follower in self.followers.values():
            if follower.end < high_watermark and (
                follower.replica_id in maximal or self._is_about_to_join(follower, now_ms)
            ):
                high_watermark = follower.end
        if high_watermark <= self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True

    def may_commit(self) -> bool:
        """Return whether the committed set is large enough for the high watermark to move."""
        return len(self.isr) >= self.min_insync

    def _is_about_to_join(self, follower: FollowerProgress, now_ms: float) -> bool:
        """Return whether the high watermark waits for a replica outside the set. Without the wait,
        a follower just behind a busy leader would never reach the high watermark."""
        return follower.is_caught_up(self.log_end, now_ms, self.lag_ms_max) and (
            self._may_be_in_sync(follower)
        )

    def _may_be_in_sync(self, follower: FollowerProgress) -> bool:
        epoch = follower.broker_epoch
        return epoch != NO_FETCH_YET and self._is_eligible(follower.replica_id, epoch)

    # -- fetches of followers

    def fetched(
        self,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        log_start: int,
        now_ms: float,
        contact: FetchContact,
    ) -> bool:
        """Note a follower's fetch from `offset`. Return whether the high watermark moved.

        The shell has checked the leader epoch, and that the offset is in the log and does not
        diverge. The state moves on arrival, not when a parked fetch is answered.
        """
        follower = self.followers.get(replica_id)
        if follower is None:
            # The follower may know of its assignment before this leader does.
            raise UnknownLeaderEpoch(f"Broker {replica_id} is no replica of this partition here.")
        if self.is_stale(replica_id, broker_epoch):
            raise NotLeaderOrFollower(
                f"Broker {replica_id} has registered again since its epoch {broker_epoch}."
            )
        follower.broker_epoch = broker_epoch
        follower.fetched(offset, log_start, self.log_end, now_ms, contact)
        return self._advance_with_followers(self._counted_end, now_ms)

    def is_stale(self, replica_id: int, broker_epoch: int) -> bool:
        """Return whether a fetch comes from an earlier incarnation of a live broker."""
        return broker_epoch != NO_BROKER_EPOCH and self._live_epoch(replica_id) > broker_epoch

    def note_epoch(self, replica_id: int, broker_epoch: int, contact: FetchContact) -> None:
        """Note the epoch of a follower that fetches, and does not name this partition. Progress of
        another session may be that of an earlier incarnation."""
        follower = self.followers.get(replica_id)
        if follower is not None and follower.contact is contact:
            if not self.is_stale(replica_id, broker_epoch):
                follower.broker_epoch = broker_epoch

    def forget_session(self, replica_id: int, contact: FetchContact) -> None:
        """End the clean state of a follower in a session that no longer has the partition. A newer
        session stays."""
        follower = self.followers.get(replica_id)
        if follower is not None and follower.contact is contact:
            follower.fall_behind()

    def low_watermark(self, log_start: int) -> int:
        """Return the smallest log start of the leader, which is given, and of the live replicas;
        -1 if one of them has not fetched yet."""
        for follower in self.followers.values():
            if follower.log_start < log_start and self._live_epoch(follower.replica_id) >= 0:
                log_start = follower.log_start
        return log_start

    # -- changes of the in-sync set

    def joining(self, replica_id: int, now_ms: float) -> IsrProposal | None:
        """Return the change by which a replica joins the in-sync set; None if it may not, or while
        another change is pending."""
        self._now_ms = now_ms
        follower = self.followers.get(replica_id)
        if follower is None or self.pending is not None or replica_id in self.isr:
            return None
        if not self.has_reached_epoch(follower) or not self._may_be_in_sync(follower):
            return None
        isr = (*self.isr, replica_id)
        self._pending_isr = isr
        return self._propose(isr)

    def has_reached_epoch(self, follower: FollowerProgress) -> bool:
        """Return whether a follower has all that is committed, and all of earlier epochs. Records
        between the high watermark and the epoch's start may have been committed before."""
        return follower.end >= self.high_watermark and follower.end >= self.epoch_start

    def lagging(self, now_ms: float, lag_ms_max: float) -> IsrProposal | None:
        """Return the change that removes the lagging replicas; None without any, or while another
        change is pending. The maximal set stays: the controller may reject the change."""
        self._now_ms = now_ms
        if self.pending is not None or len(self.isr) <= 1:
            return None
        isr = tuple(each for each in self.isr if not self._lags(each, now_ms, lag_ms_max))
        return None if len(isr) == len(self.isr) else self._propose(isr)

    def _lags(self, replica_id: int, now_ms: float, lag_ms_max: float) -> bool:
        if replica_id == self.node_id:
            return False
        follower = self.followers.get(replica_id)
        return follower is None or not follower.is_caught_up(self.log_end, now_ms, lag_ms_max)

    def _propose(self, isr: tuple[int, ...]) -> IsrProposal:
        named = tuple((each, self._epoch_of(each)) for each in isr)
        self.pending = IsrProposal(self.epoch, self.partition_epoch, named)
        return self.pending

    def _epoch_of(self, replica_id: int) -> int:
        """Return the broker epoch to propose. A member that has not fetched yet is not judged by
        its epoch: if it restarts, the controller raises the partition epoch."""
        follower = self.followers.get(replica_id)
        if follower is None or follower.broker_epoch == NO_FETCH_YET:
            return NO_BROKER_EPOCH
        return follower.broker_epoch

    def accepted(
        self,
        proposal: IsrProposal,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
    ) -> bool:
        """Commit the in-sync set of an answer. Return whether the high watermark moved.

        An equal partition epoch is a success: the set was that already. An answer to a change that
        is not pending any more, or with an older epoch, is no news.
        """
        if (
            proposal != self.pending
            or leader_epoch != self.epoch
            or partition_epoch < self.partition_epoch
        ):
            return False
        self.partition_epoch = partition_epoch
        self._commit(isr)
        return self._advance_with_followers(self._counted_end, self._now_ms)

    def rejected(self, proposal: IsrProposal, error: KafkaError | None) -> bool:
        """Note a failed change. Return whether to send it again, as after unknown errors.

        If the controller says that the change was not made, the committed set counts again.
        Otherwise the change may have been made, and stays pending until the image tells.
        """
        if proposal != self.pending:
            return False
        verdict = judge(error)
        if verdict is RejectedChange.NOT_MADE:
            self._commit(self.isr)
        return verdict is RejectedChange.SEND_AGAIN
