"""Follower side of one partition: decides on the next question and on the step after an answer.

The log is asked for its end and its epochs each time, so a fetch always begins at the end of what
is there. Only answers to the present question count: same offset, same leader epoch.
Reads no clock and no file; `leader.py` is the other half, `fetcher.py` the session with a leader.
"""

from enum import Enum

from penstock.errors import (
    NONE,
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaError,
    OffsetOutOfRange,
    from_code,
)
from penstock.replication.fetched_records import whole_batches
from penstock.replication.follower_steps import (
    Append,
    AskEnd,
    AskStart,
    FailReplica,
    FollowerStep,
    NewLeaderNeeded,
    StartAt,
    TruncateTo,
    WaitUntil,
)
from penstock.replication.truncation_point import FollowerLog, truncation_offset
from penstock.wire.messages.k01_fetch import PartitionData
from penstock.wire.primitives import Malformed

BACKOFF_MS = 1000.0  # Kafka's default of replica.fetch.backoff.ms


class FollowerState(Enum):
    """FETCHING: may be asked for. BUSY: the shell changes the log, or waits for a sync round.
    ASKING: a question about the leader's offsets is under way. DELAYED: waits after an error.
    FAILED: waits for another leader epoch."""

    FETCHING = "fetching"
    BUSY = "busy"
    ASKING = "asking"
    DELAYED = "delayed"
    FAILED = "failed"


class PartitionFollower:
    """One followed partition. A new leader epoch begins with `follow`."""

    __slots__ = (
        "backoff_ms",
        "leader_epoch",
        "leader_id",
        "leader_watermark",
        "log",
        "partition",
        "reason",
        "state",
        "topic_id",
        "until_ms",
    )

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        log: FollowerLog,
        leader_id: int,
        leader_epoch: int,
        *,
        backoff_ms: float = BACKOFF_MS,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.backoff_ms = backoff_ms
        self.state = FollowerState.FETCHING
        self.until_ms = 0.0  # while delayed
        self.reason = ""  # of the delay or the failure
        self.leader_watermark = -1  # of the last answer

    @property
    def lag(self) -> int:
        """Return the committed records of the leader that are missing here."""
        return max(0, self.leader_watermark - self.log.end_offset)

    @property
    def last_fetched_epoch(self) -> int:
        return self.log.latest_epoch

    def first_step(self, high_watermark: int) -> FollowerStep | None:
        """Return the step before the first fetch in an epoch, if one is needed. A log without
        epochs (of message formats before 2) cannot be compared, and is cut at the high watermark.
        """
        if self.log.latest_epoch >= 0 or self.log.end_offset <= high_watermark:
            return None
        self.state = FollowerState.BUSY
        return TruncateTo(high_watermark)

    def follow(self, leader_id: int, leader_epoch: int) -> bool:
        """Follow a leader in another epoch. Return whether anything changed.

        Questions and delays of the epoch before end. A change of the log that is under way goes
        on.
        """
        if leader_epoch == self.leader_epoch:
            return False
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        if self.state is not FollowerState.BUSY:
            self.state = FollowerState.FETCHING
        return True

    def is_ready(self, now_ms: float) -> bool:
        """Return whether the partition may be asked for; a delay that has passed ends."""
        if self.state is FollowerState.DELAYED and now_ms >= self.until_ms:
            self.state = FollowerState.FETCHING
        return self.state is FollowerState.FETCHING

    # -- reports of the shell

    def begin_work(self) -> None:
        """Fetch nothing until `finished`: the shell waits for a sync of records that the next fetch
        would name."""
        self.state = FollowerState.BUSY

    def wait(self, now_ms: float, reason: str) -> FollowerStep:
        """Ask for the same records again after a pause: they could not be stored."""
        return self._delay(now_ms, reason)

    def finished(self) -> None:
        """Go on after a step on the log: the next fetch begins at its new end."""
        if self.state is FollowerState.BUSY:
            self.state = FollowerState.FETCHING

    def append_failed(self, error: KafkaError, now_ms: float) -> FollowerStep:
        """Return the step after an append that stored nothing. Damage may have come from the
        network, so the records are asked for again; any other error ends the replication."""
        self.state = FollowerState.FETCHING
        if isinstance(error, CorruptMessage):
            return self._delay(now_ms, error.message)
        return self._fail(error.message)

    # -- answers

    def answered(
        self, offset: int, leader_epoch: int, data: PartitionData, now_ms: float
    ) -> FollowerStep | None:
        """Return the step after an answer to a fetch from `offset` in `leader_epoch`; None if the
        question is not the present one."""
        if not self.is_present(offset, leader_epoch):
            return None
        if data.error_code != NONE:
            return self._failed_fetch(from_code(data.error_code), now_ms)
        if data.diverging_epoch.epoch >= 0:
            return self._diverged(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        try:
            fetched = whole_batches(data.records, leader_epoch)
        except Malformed as error:
            return self._delay(now_ms, str(error))
        self.leader_watermark = data.high_watermark
        if fetched.first_offset < 0:
            return Append(fetched.data, data.high_watermark, data.log_start_offset)
        restart_at = None
        if fetched.first_offset < offset:
            # DeleteRecords may have moved the leader's log start into its first batch. All records
            # of this log are deleted then, or it has none.
            is_deleted = offset in (self.log.start_offset, data.log_start_offset)
            if not is_deleted or fetched.first_batch_end <= offset:
                return self._fail(f"Offset {fetched.first_offset} came where {offset} was due.")
            restart_at = fetched.first_offset
        self.state = FollowerState.BUSY
        return Append(fetched.data, data.high_watermark, data.log_start_offset, restart_at)

    def is_present(self, offset: int, leader_epoch: int) -> bool:
        """Return whether an answer concerns the present question. After a truncation or in another
        epoch, the same offsets may hold other records."""
        return (
            self.state is FollowerState.FETCHING
            and offset == self.log.end_offset
            and leader_epoch == self.leader_epoch
        )

    def _diverged(self, epoch: int, end_offset: int) -> FollowerStep:
        self.state = FollowerState.BUSY
        return TruncateTo(self.shared_end(epoch, end_offset))

    def shared_end(self, epoch: int, end_offset: int) -> int:
        """Return the offset to truncate to after the leader's answer about an epoch."""
        return truncation_offset(self.log, epoch, end_offset)

    def _failed_fetch(self, error: KafkaError, now_ms: float) -> FollowerStep:
        if isinstance(error, OffsetOutOfRange):
            self.state = FollowerState.ASKING
            return AskEnd(self.leader_epoch)
        return self._not_answered(error, now_ms)

    def _not_answered(self, error: KafkaError, now_ms: float) -> FollowerStep:
        """Return the step after an error. A fenced epoch is over for good; all other errors pass:
        the leader may know its leadership, the topic or this replica later than this node."""
        if isinstance(error, FencedLeaderEpoch):
            self.state, self.reason = FollowerState.FAILED, error.message
            return NewLeaderNeeded(self.leader_epoch)
        return self._delay(now_ms, error.message)

    def _delay(self, now_ms: float, reason: str) -> WaitUntil:
        self.state, self.reason = FollowerState.DELAYED, reason
        self.until_ms = now_ms + self.backoff_ms
        return WaitUntil(self.until_ms, reason)

    def _fail(self, reason: str) -> FailReplica:
        self.state, self.reason = FollowerState.FAILED, reason
        return FailReplica(reason)

    # -- out of range: answers to questions about the leader's log

    def end_known(self, leader_epoch: int, leader_end: int) -> FollowerStep | None:
        """Return the step after the answer to AskEnd: cut what the leader lacks, else ask for its
        start. None if the question is not the present one."""
        if not self._asks(leader_epoch):
            return None
        if leader_end < self.log.end_offset:
            self.state = FollowerState.BUSY
            return TruncateTo(leader_end)
        return AskStart(leader_epoch)

    def start_known(self, leader_epoch: int, leader_start: int) -> FollowerStep | None:
        """Return the step after the answer to AskStart: begin where the leader's log begins. None
        if the log reaches that far, and the next fetch goes on at its end."""
        if not self._asks(leader_epoch):
            return None
        if leader_start > self.log.end_offset:
            self.state = FollowerState.BUSY
            return StartAt(leader_start)
        self.state = FollowerState.FETCHING
        return None

    def question_failed(
        self, leader_epoch: int, error: KafkaError, now_ms: float
    ) -> FollowerStep | None:
        """Return the step after a failed AskEnd or AskStart; None if it is not the present one."""
        return self._not_answered(error, now_ms) if self._asks(leader_epoch) else None

    def _asks(self, leader_epoch: int) -> bool:
        return self.state is FollowerState.ASKING and leader_epoch == self.leader_epoch
