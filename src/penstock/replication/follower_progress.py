"""Progress of one follower, as its leader knows it: ends, times, and the epoch of its broker.

A follower is caught up at a time if it has all records that the leader had then. Each fetch of a
session counts for all its partitions, but only changed partitions are looked at. A follower that
asked for the leader's end is *clean*: its caught-up time is the last fetch of its session. The
first append after that stores this time in the progress, and ends the clean state.

A fetch of an older session may arrive late, over another connection. The newer session does not ask
about idle partitions again, so the fetch that takes one over is noted there.
"""

UNKNOWN_END = -1
UNKNOWN_START = -1
NO_FETCH_YET = -2  # instead of a broker epoch; -1 is the epoch of brokers that name none
NEVER_MS = float("-inf")


class FetchContact:
    """A fetch session of a follower with this node: the arrivals of its last two fetches.

    The shell calls `arrive` for each fetch of the session, before it looks at partitions. A fetch
    without a session has a contact of its own.
    """

    __slots__ = ("displaced", "fetched_at_ms", "fetched_before_ms")

    def __init__(self, now_ms: float) -> None:
        self.fetched_at_ms = now_ms
        self.fetched_before_ms = now_ms
        self.displaced = False  # another session has fetched a clean partition of this one

    def arrive(self, now_ms: float) -> bool:
        """Note the arrival of a fetch of this session. Return whether all partitions are looked at
        again, because another session has fetched some."""
        self.fetched_before_ms = self.fetched_at_ms
        self.fetched_at_ms = now_ms
        displaced, self.displaced = self.displaced, False
        return displaced


class FollowerProgress:
    """State of one follower within a leadership. Plain attributes: this is on the hot path."""

    __slots__ = (
        "_caught_up_ms",
        "_fetched_ms",
        "_leader_end",
        "broker_epoch",
        "contact",
        "end",
        "log_start",
        "replica_id",
    )

    def __init__(self, replica_id: int) -> None:
        self.replica_id = replica_id
        self.end = UNKNOWN_END  # the offset asked for last: all records before it are stored
        self.log_start = UNKNOWN_START
        self.broker_epoch = NO_FETCH_YET
        self.contact: FetchContact | None = None  # its session while it is clean
        self._caught_up_ms = NEVER_MS
        self._fetched_ms = NEVER_MS
        self._leader_end = UNKNOWN_END  # the leader's end at the last fetch

    @property
    def caught_up_ms(self) -> float:
        """Return the last time at which the follower was caught up."""
        contact = self.contact
        return self._caught_up_ms if contact is None else contact.fetched_at_ms

    def begin_epoch(self, epoch_start: int, now_ms: float, *, in_sync: bool, known: bool) -> None:
        """Set the times for a new leader epoch. Only a leader that led before knows the ends."""
        if not known:
            self.end = UNKNOWN_END
            self.log_start = UNKNOWN_START
            self.broker_epoch = NO_FETCH_YET
        self.contact = None
        self._caught_up_ms = self._fetched_ms = now_ms if in_sync else NEVER_MS
        self._leader_end = epoch_start if known else UNKNOWN_END

    def fetched(
        self, offset: int, log_start: int, leader_end: int, now_ms: float, contact: FetchContact
    ) -> None:
        """Note a fetch from `offset`, while the leader's log ends at `leader_end`."""
        clean = self.contact
        if clean is contact:
            self._leave_clean(contact.fetched_before_ms)
        elif clean is not None:
            clean.displaced = True
            self._leave_clean(clean.fetched_at_ms)
        if offset >= leader_end:
            self.contact = contact
        elif offset >= self._leader_end:
            # The follower has all that the leader had at the fetch before.
            self._caught_up_ms = max(self._caught_up_ms, self._fetched_ms)
        self.end = offset
        self.log_start = log_start
        self._fetched_ms = now_ms
        self._leader_end = max(leader_end, self._leader_end)

    def fall_behind(self) -> None:
        """Store the caught-up time of a clean follower: the leader appends, or the session no
        longer has the partition."""
        if self.contact is not None:
            self._leave_clean(self.contact.fetched_at_ms)

    def _leave_clean(self, fetched_ms: float) -> None:
        self.contact = None
        self._caught_up_ms = self._fetched_ms = fetched_ms
        self._leader_end = self.end  # a clean follower has asked for the leader's end

    def is_caught_up(self, leader_end: int, now_ms: float, lag_ms_max: float) -> bool:
        """Return whether the follower has all records, or had all of them within the lag."""
        return self.end == leader_end or now_ms - self.caught_up_ms <= lag_ms_max
