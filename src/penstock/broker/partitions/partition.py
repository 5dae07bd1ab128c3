"""One partition of this node: its log, its leadership, and the requests that wait for it.

Appends of a turn collect in `batches` and go to the log in one call when the turn ends. The
fields are plain and the tickets are tuples because every produced batch passes here.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from penstock.broker.partitions.verified_producers import PendingVerification, VerifiedProducers
from penstock.controller.image import PartitionImage
from penstock.coordinator.records import EndMarker
from penstock.errors import (
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from penstock.log.config import UNBOUNDED
from penstock.log.log import Log
from penstock.log.producers import EPOCH, TXN_FIRST_OFFSET
from penstock.log.retention import Renamed
from penstock.log.segment import NEVER
from penstock.model import NO_TIMESTAMP
from penstock.replication.leader import PartitionLeader
from penstock.replication.watermarks import follower_watermark
from penstock.wire.batch import ABORT_MARKER, COMMIT_MARKER, LAST_OFFSET_DELTA, Header
from penstock.world import Buffer, DiskFailed, DiskFull

if TYPE_CHECKING:
    from penstock.broker.partitions.topic_settings import TopicSettings
    from penstock.broker.storage.log_dir import LogDirectory

T = TypeVar("T")
# (who answers, connection, slot or place in a request of several, correlation id)
Ticket: TypeAlias = tuple[Any, Any, Any, int]
# (offset the high watermark must reach, ticket, base offset, append time, deadline)
Awaiting: TypeAlias = tuple[int, Ticket, int, int, float]


def unavailable_error(partition: "Partition") -> KafkaError | None:
    """Return why a partition cannot be written to any more; None if it can."""
    if partition.gone:
        return UnknownTopicOrPartition(f"{partition} was deleted")
    if partition.log.lost is not None:
        return KafkaStorageError(f"{partition} is offline: {partition.log.lost}")
    if not partition.leading:
        return NotLeaderOrFollower(f"this node does not lead {partition} any more")
    return None


class ReplicaWatcher(Protocol):
    """A fetch session of a follower that has this partition."""

    def partition_changed(self) -> None:
        """Note appended records, and answer a waiting fetch with them."""
        ...

    def watermark_moved(self) -> None:
        """Note another high watermark, for the next answer."""
        ...

    def isr_changed(self) -> None:
        """Note that the follower has joined or left the in-sync set."""
        ...


class StartWaiter(Protocol):
    """A deletion of records that waits for the followers."""

    def look(self) -> None:
        """Look whether the followers have deleted the records, too."""
        ...


class SyncedReplica(Protocol):
    """The following of a leader on another node."""

    @property
    def lag(self) -> int:
        """Return the committed records of the leader that are missing here."""
        ...

    @property
    def has_failed(self) -> bool:
        """Return whether nothing is fetched before another leader is elected."""
        ...

    def synced(self) -> None:
        """Note a sync round over the log."""
        ...


class CommitWaiter:
    """A write of this node itself that waits for the high watermark, among the producers."""

    __slots__ = ("_done",)
    timeout_ms = 0  # none
    acks = 1  # records of this node count when they are committed, with any set of replicas

    def __init__(self, done: Callable[[KafkaError | None], None]) -> None:
        self._done = done

    def succeeded(self, _ticket: Any, _base_offset: int, _append_time_ms: int) -> None:
        self._done(None)

    def failed(self, _ticket: Any, error: KafkaError) -> None:
        self._done(error)

    def waited(self, _ticket: Any, _since_ms: float) -> None:
        """Do nothing: only client requests are timed."""


class Partition:
    """A hosted partition. While `directory.failed` its log is not to be used."""

    __slots__ = (
        "awaiting",
        "batch_bytes_max",
        "batches",
        "bytes_out",
        "bytes_rejected",
        "deletions",
        "directory",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "flush_queued",
        "flushes",
        "flushing_to",
        "following",
        "gone",
        "held",
        "index",
        "leader",
        "leading",
        "log",
        "pending_verifications",
        "plain",
        "produces",
        "recompressing",
        "replica_watchers",
        "replicas",
        "segment",
        "settings",
        "start_at_zero",
        "start_waiters",
        "tickets",
        "timestamp_after_ms_max",
        "topic",
        "topic_id",
        "touched",
        "verified_producers",
        "watchers",
        "wrote",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        directory: "LogDirectory",
        log: Log,
        leader: PartitionLeader,
        settings: "TopicSettings",
        *,
        replicas: int,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.directory = directory
        self.log = log
        self.leader = leader
        self.settings = settings
        self.replicas = replicas  # how many there are, in sync or not
        leader.require(settings.min_insync, replicas)
        self.plain = settings.plain  # records need not be looked into
        self.batch_bytes_max = settings.message_bytes_max
        self.timestamp_after_ms_max = settings.timestamp_after_ms_max
        self.segment = log.active  # the one that the last append went to
        # (view, unpacked header) of each batch of this turn, and the tickets of their answers
        self.batches: list[tuple[Buffer, Header]] = []
        self.tickets: list[Ticket] = []
        self.awaiting: deque[Awaiting] = deque()
        self.watchers: dict[Any, None] = {}  # for committed records
        self.replica_watchers: dict[ReplicaWatcher, None] = {}  # for all records
        self.deletions: list[int] = []  # offsets of DeleteRecords that are not durable yet
        # (producer id, epoch) -> batches that wait for the producer's transaction coordinator
        self.pending_verifications: dict[tuple[int, int], PendingVerification] = {}
        # Batches that wait to be recompressed, and batches that wait behind those
        self.recompressing = 0
        self.verified_producers = VerifiedProducers()
        self.start_waiters: dict[StartWaiter, None] = {}  # for log starts of followers
        self.start_at_zero: tuple[int, ...] = ()  # producers of this turn that must begin there
        self.touched = False
        self.wrote = False  # since the last sync round of its directory began
        self.gone = False
        self.following: SyncedReplica | None = None  # while another node leads
        self.held = False  # at the end of a move: produced batches wait, own writes fail
        self.leading = True
        # Only under page-cache: nothing is added to what is synced anyway
        self.flushes = settings.flushes and not directory.waits_for_sync
        self.flush_queued = False  # flush.ms runs
        self.flushing_to = 0  # flush.messages was reached: nothing counts before that is synced
        # Since the start, for the metrics; the log counts what was appended.
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.bytes_out = 0
        self.bytes_rejected = 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_offline(self) -> bool:
        """Return whether the directory has failed, or files of the log are damaged."""
        return self.directory.failed is not None or self.log.failure is not None

    def configure(self, settings: "TopicSettings") -> None:
        self.settings = settings
        self.plain = settings.plain and not self.recompressing
        self.batch_bytes_max = settings.message_bytes_max
        self.timestamp_after_ms_max = settings.timestamp_after_ms_max
        self.log.config = settings.log
        self.flushes = settings.flushes and not self.directory.waits_for_sync
        if self.flushes and self.unsynced:
            self._flush_if_due()
            self.directory.wrote_its_own()
        self.leader.require(settings.min_insync, self.replicas)
        self._recount()

    def recompression_ended(self) -> None:
        """Use the fast path again: no batch waits that could be overtaken."""
        self.plain = self.settings.plain

    def lead(self, state: PartitionImage, mono_ms: float) -> None:
        """Apply the image of a partition that this node leads."""
        leader = self.leader
        self.replicas = len(state.replicas)
        leader.require(self.settings.min_insync, self.replicas)
        moved = False
        if self.leading and state.leader_epoch == leader.epoch:
            moved = leader.update(state.partition_epoch, state.isr, state.replicas, mono_ms)
        else:
            self.leading = True
            self._reject_staged(NotLeaderOrFollower(f"{self} has another leader epoch by now"))
            self.verified_producers.forget()
            self.log.begin_epoch(state.leader_epoch)
            leader.begin(
                state.leader_epoch,
                state.partition_epoch,
                state.isr,
                state.replicas,
                self.log.end_offset,
                mono_ms,
            )
        self._recount(moved=moved)
        self.follower_fetched()  # a replica may be away, or not be one any more
        self.isr_changed()

    def isr_changed(self) -> None:
        """Notify the sessions of followers: one that has left the set joins by its next fetch, even
        if that does not name the partition."""
        for watcher in self.replica_watchers:
            watcher.isr_changed()

    def follow(self, state: PartitionImage) -> None:
        """Apply the image of a partition that another node leads, or none; answer waiting requests
        with NOT_LEADER_OR_FOLLOWER."""
        self.replicas = len(state.replicas)
        self.leader.follow(state.leader_epoch, state.partition_epoch, state.replicas)
        if self.leading:
            self.leading = False
            self.abandon(NotLeaderOrFollower(f"this node does not lead {self} any more"))

    def _recount(self, *, moved: bool = False) -> None:
        log = self.log
        counted = log.end_offset
        if self.directory.waits_for_sync or log.synced_offset < self.flushing_to:
            counted = log.synced_offset
        if (self.leading and self._advance(counted)) or moved:
            self.watermark_moved()

    def _advance(self, counted: int) -> bool:
        """Count the log of this node up to an offset. Return whether the high watermark moved."""
        leader = self.leader
        return leader.advance(counted, self.directory.now_ms() if leader.followers else 0.0)

    def watermark_moved(self) -> None:
        """Answer the producers whose records are now committed, and notify the watchers."""
        self.release()
        self.notify_watchers()
        for watcher in self.replica_watchers:
            watcher.watermark_moved()

    def append_turn(self, now_ms: int, mono_ms: float) -> None:
        """Append all batches of this turn in one write, and answer their tickets."""
        if self.gone or not self.leading:
            self._reject_all()
            return
        if self.held:
            self._keep_held()
            return
        batches, tickets = self.batches, self.tickets
        self.batches, self.tickets = [], []
        start_at_zero, self.start_at_zero = self.start_at_zero, ()
        self.touched = False
        self.produces += len(batches)
        log = self.log
        before = log.appended_bytes
        was_lost = log.lost is not None
        try:
            self.directory.check_writable()
            results = log.append(batches, self.leader.epoch, now_ms, start_at_zero)
        except DiskFull as failure:
            self.directory.filled_up(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        except DiskFailed as failure:
            if log.lost is not None and not was_lost:
                self._await_record(tickets, mono_ms)
                tickets = []
            self.directory.fail(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        self._count_written(before)
        # partition.metadata is synced before the first answer: without the file, a start could give
        # the records to another topic of the same name.
        unnamed = log.metadata_unsynced
        all_wait = unnamed or log.synced_offset < self.flushing_to
        high_watermark = -1 if unnamed else self.leader.high_watermark
        append_time_ms = now_ms if self.settings.append_time else NO_TIMESTAMP
        for ticket, batch, result in zip(tickets, batches, results, strict=True):
            target = ticket[0]
            if type(result) is not int:
                target.failed(ticket, result)
            elif (target.acks == -1 or all_wait) and (
                needed := result + batch[1][LAST_OFFSET_DELTA] + 1
            ) > high_watermark:
                deadline = mono_ms + target.timeout_ms
                self.awaiting.append((needed, ticket, result, append_time_ms, deadline))
                target.waits(ticket)
            else:
                target.succeeded(ticket, result, append_time_ms)

    def _await_record(self, tickets: list[Ticket], mono_ms: float) -> None:
        """Let requests that met damage wait for `abandon`, which follows when the damage is on
        record. A kill after an earlier answer would hide the damage."""
        for ticket in tickets:
            deadline = mono_ms + ticket[0].timeout_ms
            self.awaiting.append((NEVER, ticket, -1, NO_TIMESTAMP, deadline))
            ticket[0].waits(ticket)

    def _reject_all(self) -> None:
        """Reject the batches of this turn: the partition was deleted, or stopped leading. Its files
        may be renamed already, so a missing file is no damage."""
        self.touched = False
        error = unavailable_error(self)
        assert error is not None, "only an unavailable partition rejects"
        self._reject_staged(error)

    def _reject_staged(self, error: KafkaError) -> None:
        """Reject the batches that wait for the end of the turn, or of a move. The checks of an
        earlier leadership count no more: another leader may have let a new owner take over an open
        transaction."""
        tickets, self.tickets, self.batches = self.tickets, [], []
        self.start_at_zero = ()
        self._fail(tickets, error)

    def _keep_held(self) -> None:
        """Copy the batches, which are views of buffers that end with this turn."""
        self.batches = [
            (batch if isinstance(batch, bytes) else bytes(batch), header)
            for batch, header in self.batches
        ]
        self.touched = False

    def release_held(self, touch: Callable[["Partition"], None]) -> None:
        """Write the batches that waited, or reject them if the partition is gone."""
        if not self.held:
            return
        self.held = False
        if self.gone:
            self._reject_all()
        elif self.directory.failed:
            tickets, self.tickets, self.batches = self.tickets, [], []
            self._fail(tickets, KafkaStorageError(f"{self} is offline: {self.directory.failed}"))
        elif self.batches and not self.touched:
            touch(self)

    def _count_written(self, bytes_before: int) -> None:
        """Count appended records: now, or after the next sync round."""
        directory, log = self.directory, self.log
        directory.unseen_bytes += log.appended_bytes - bytes_before
        directory.moved.add(self)
        if directory.full:
            directory.has_room()
        if log.metadata_unsynced:
            directory.wrote(self)
        if self.leader.followers:
            # A follower fetches records before their sync here, and syncs them meanwhile.
            self.leader.appended(log.end_offset)
            for watcher in self.replica_watchers:
                watcher.partition_changed()
        if self.flushes and self._flush_if_due():
            return
        if not directory.waits_for_sync:
            if self.leading and self._advance(log.end_offset) and self.watchers:
                self.notify_watchers()
            if log.active is not self.segment:
                self.segment = log.active
                directory.wrote(self)
        elif not self.wrote:
            directory.wrote(self)

    @property
    def unsynced(self) -> bool:
        return self.log.synced_offset < self.log.end_offset

    def _flush_if_due(self) -> bool:
        """Return whether appended records count only after a sync (flush.messages)."""
        log, settings = self.log, self.settings
        if log.end_offset - log.synced_offset >= settings.flush_messages:
            self.flushing_to = log.end_offset
            self.directory.wrote(self)
        elif settings.flush_ms < UNBOUNDED and not self.flush_queued:
            self.directory.flushing.written(self)
        return log.synced_offset < self.flushing_to

    def append_fetched(self, records: Buffer, now_ms: int) -> None:
        """Append batches of the leader. Raise CorruptMessage, or DiskFailed; nothing is stored
        then."""
        assert not self.leading, "a leader appends what it is sent by producers"
        before = self.log.appended_bytes
        try:
            self.directory.check_writable()
            self.log.append_as_follower(records, now_ms)
        except DiskFull as failure:
            self.directory.filled_up(failure)
            raise
        except DiskFailed as failure:
            self.directory.fail(failure)
            raise
        self._count_written(before)
        self.directory.wrote_its_own()

    def follow_offsets(self, high_watermark: int, start_offset: int) -> None:
        """Take over the high watermark of the leader, as far as the log reaches, and then the start
        of its log."""
        leader, log = self.leader, self.log
        leader.high_watermark = follower_watermark(high_watermark, log.start_offset, log.end_offset)
        start_offset = min(start_offset, leader.high_watermark)
        if start_offset > log.start_offset:
            self.delete_before(start_offset)

    def was_truncated(self) -> None:
        """Note that records at the end of the log are gone."""
        leader = self.leader
        leader.high_watermark = min(leader.high_watermark, self.log.end_offset)
        self.segment = self.log.active
        self.directory.moved.add(self)

    def append_own(self, batch: Buffer, header: Header, now_ms: int) -> int | KafkaError:
        """Append a coordinator's batch at once; return its offset, or the error of the log."""
        epoch = self.leader.epoch
        return self._write(lambda: self.log.append([(batch, header)], epoch, now_ms)[0])

    def append_marker(self, marker: EndMarker, now_ms: int) -> int:
        """Append the end of a producer's transaction at once; return the offset of the marker.
        Batches of this turn must be written before."""
        assert self.held or not self.batches, "a marker comes after what it ends"
        offset = self._write(
            lambda: self.log.append_control(
                COMMIT_MARKER if marker.committed else ABORT_MARKER,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                leader_epoch=self.leader.epoch,
                now_ms=now_ms,
                transactions_v2=marker.transactions_v2,
            )
        )
        self.verified_producers.ended(marker.producer_id)
        for (waiting, _epoch), joining in self.pending_verifications.items():
            if waiting == marker.producer_id:
                joining.ended = True
        return offset

    def knows(self, producer_id: int) -> bool:
        return producer_id in self.log.producers.states

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Return whether this producer has an open transaction here that its coordinator vouches
        for (verified_producers.py)."""
        if self.verified_producers.vouched.get(producer_id) != epoch:
            return False
        state = self.log.producers.states.get(producer_id)
        return state is not None and state[TXN_FIRST_OFFSET] >= 0 and state[EPOCH] == epoch

    def when_committed(self, offset: int, done: Callable[[KafkaError | None], None]) -> None:
        """Call when all records below `offset` are committed, or with the error that prevents
        it."""
        if offset <= self.leader.high_watermark and not self.log.metadata_unsynced:
            done(None)
        else:
            ticket = (CommitWaiter(done), None, None, 0)
            self.awaiting.append((offset, ticket, offset, NO_TIMESTAMP, inf))

    def _write(self, write: Callable[[], T]) -> T:
        """Run a write of this node itself, outside of the turn's batches."""
        if (gone := unavailable_error(self)) is not None:
            raise gone
        if self.leader.below_min_insync:
            raise NotEnoughReplicas(f"{self} has too few in-sync replicas")
        if self.held:
            raise KafkaStorageError(f"{self} is just moving to another log directory")
        before = self.log.appended_bytes
        try:
            self.directory.check_writable()
            result = write()
        except DiskFull as failure:
            self.directory.filled_up(failure)
            raise KafkaStorageError(str(failure)) from None
        except DiskFailed as failure:
            self.directory.fail(failure)
            raise KafkaStorageError(str(failure)) from None
        self._count_written(before)
        self.directory.wrote_its_own()
        return result

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above the given one, and its end offset; (-1, -1) if the
        epoch is newer than the leader's."""
        return self.log.epoch_end(epoch)

    def delete_before(self, offset: int) -> None:
        """Move the start of the log to `offset` (DeleteRecords); files are removed later."""
        self.log.advance_start_offset(offset)
        self.notify_watchers()
        for watcher in self.replica_watchers:
            watcher.watermark_moved()

    def follower_fetched(self) -> None:
        """Notify the deletions of records that wait for followers."""
        if self.start_waiters:
            for waiter in list(self.start_waiters):
                waiter.look()

    @property
    def low_watermark(self) -> int:
        """Return the smallest log start of the live replicas."""
        return self.leader.low_watermark(self.log.start_offset)

    @property
    def checkpointed_start_offset(self) -> int:
        """Return the start of the log for checkpoints. A deletion is durable before it counts, so
        a failed one changes nothing."""
        return max((self.log.start_offset, *self.deletions))

    def begin_deletion(self, offset: int) -> None:
        """Have the next checkpoint of start offsets name `offset`."""
        self.deletions.append(offset)

    def end_deletion(self, offset: int, *, durable: bool) -> None:
        self.deletions.remove(offset)
        if durable and not self.gone:
            self.delete_before(offset)

    def forget_old(self, now_ms: int, renamed: Renamed) -> None:
        """Drop segments by retention; `renamed` gets the files to remove after
        file.delete.delay.ms. May raise Cold."""
        if self.gone:
            return  # deleted during a cold read
        if self.log.delete_old_segments(now_ms, self.leader.high_watermark, renamed):
            self.notify_watchers()

    def synced(self) -> None:
        """Count records that are synced now, and answer their producers."""
        if not self.gone:
            self.directory.moved.add(self)
            self._recount()
            if self.awaiting:
                self.release()
            if self.following is not None:
                self.following.synced()

    def release(self) -> None:
        """Answer the producers whose records are now committed."""
        if self.log.metadata_unsynced:
            return
        awaiting, high_watermark = self.awaiting, self.leader.high_watermark
        while awaiting and awaiting[0][0] <= high_watermark:
            _needed, ticket, base_offset, append_time_ms, deadline = awaiting.popleft()
            target = ticket[0]
            if target.acks == -1 and self.leader.below_min_insync_at_ack:
                target.failed(ticket, NotEnoughReplicasAfterAppend(f"{self} lost replicas"))
            else:
                target.succeeded(ticket, base_offset, append_time_ms)
            target.waited(ticket, deadline - target.timeout_ms)

    def expire(self, mono_ms: float, error: KafkaError) -> None:
        """Answer the producers whose time is up."""
        late = [entry for entry in self.awaiting if entry[-1] <= mono_ms]
        if late:
            self.awaiting = deque(entry for entry in self.awaiting if entry[-1] > mono_ms)
            self._give_up(late, error)

    def abandon(self, error: KafkaError) -> None:
        """Answer all waiting requests with an error: the partition is gone or offline."""
        awaiting, self.awaiting = self.awaiting, deque()
        self._give_up(awaiting, error)
        self.notify_watchers()
        self.follower_fetched()

    def _give_up(self, entries: Iterable[Awaiting], error: KafkaError) -> None:
        for _needed, ticket, _base_offset, _append_time_ms, deadline in entries:
            target = ticket[0]
            target.failed(ticket, error)
            target.waited(ticket, deadline - target.timeout_ms)

    def _fail(self, tickets: list[Ticket], error: KafkaError) -> None:
        for ticket in tickets:
            ticket[0].failed(ticket, error)

    def notify_watchers(self) -> None:
        """Notify fetch sessions and coordinators that the partition changed."""
        for watcher in list(self.watchers) if len(self.watchers) > 1 else self.watchers:
            watcher.partition_changed()


@dataclass(slots=True)
class PartitionTotals:
    """The counters of some partitions, summed."""

    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_rejected: int = 0
    produces: int = 0
    fetches: int = 0
    failed_produces: int = 0
    failed_fetches: int = 0

    def add(self, partition: Partition) -> None:
        self.records_in += partition.log.appended_records
        self.bytes_in += partition.log.appended_bytes
        self.bytes_out += partition.bytes_out
        self.bytes_rejected += partition.bytes_rejected
        self.produces += partition.produces
        self.fetches += partition.fetches
        self.failed_produces += partition.failed_produces
        self.failed_fetches += partition.failed_fetches
