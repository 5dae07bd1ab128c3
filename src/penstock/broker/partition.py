"""One partition that this node hosts: its log, its leadership, who waits for it.

Appends of a turn collect in `batches` and go to the log in one call when the turn ends. The
fields are plain and the tickets are tuples because every produced batch passes here.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from penstock.broker.admission import Admission
from penstock.errors import (
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from penstock.log.config import UNBOUNDED
from penstock.log.log import Log
from penstock.log.producers import EPOCH, TXN_FIRST_OFFSET
from penstock.log.retention import Renamed
from penstock.model import NO_TIMESTAMP
from penstock.replication.leader import Leader
from penstock.wire.batch import LAST_OFFSET_DELTA, Header
from penstock.world import Buffer, DiskFailed, DiskFull

if TYPE_CHECKING:
    from penstock.broker.directory import Directory
    from penstock.broker.joining import Joining
    from penstock.broker.recompression import Waiting
    from penstock.broker.topic_settings import TopicSettings

T = TypeVar("T")
# (offset the high watermark must reach, ticket, base offset, append time, deadline)
Awaiting: TypeAlias = tuple[int, tuple[Any, Any, Any, int], int, int, float]


def absence(partition: "Partition") -> KafkaError | None:
    """Why a partition cannot be written to any more, if it could when a batch came."""
    if partition.gone:
        return UnknownTopicOrPartition(f"{partition} was deleted")
    if partition.log.lost is not None:
        return KafkaStorageError(f"{partition} is offline: {partition.log.lost}")
    if not partition.leading:
        return NotLeaderOrFollower(f"this node does not lead {partition} any more")
    return None


class Committed:
    """Something of this node's own that waits for the high watermark, among the producers."""

    __slots__ = ("_done",)
    timeout_ms = 0  # it has none: it waits as long as it takes

    def __init__(self, done: Callable[[KafkaError | None], None]) -> None:
        self._done = done

    def succeeded(self, _ticket: Any, _base_offset: int, _append_time_ms: int) -> None:
        self._done(None)

    def failed(self, _ticket: Any, error: KafkaError) -> None:
        self._done(error)

    def waited(self, _ticket: Any, _since_ms: float) -> None:
        """Nobody asked for it."""


class Partition:
    """A hosted partition. While `directory.failed` its log is not to be used."""

    __slots__ = (
        "admission",
        "awaiting",
        "batch_bytes_max",
        "batches",
        "bytes_out",
        "bytes_rejected",
        "directory",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "flush_queued",
        "flushes",
        "flushing_to",
        "gone",
        "held",
        "index",
        "joining",
        "lane",
        "leader",
        "leading",
        "log",
        "plain",
        "produces",
        "replicas",
        "segment",
        "settings",
        "start_at_zero",
        "tickets",
        "timestamp_after_ms_max",
        "topic",
        "topic_id",
        "touched",
        "watchers",
        "wrote",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        directory: "Directory",
        log: Log,
        leader: Leader,
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
        # (view, unpacked header) of each batch of this turn, and who is to hear of it
        self.batches: list[tuple[Buffer, Header]] = []
        self.tickets: list[tuple[Any, Any, Any, int]] = []
        self.awaiting: deque[Awaiting] = deque()
        self.watchers: dict[Any, None] = {}
        # (producer id, epoch) -> who waits until that producer's transaction reaches in here
        self.joining: dict[tuple[int, int], Joining] = {}
        # Batches that wait to be recompressed, and those that wait behind them
        self.lane: deque[Waiting] = deque()
        self.admission = Admission()
        self.start_at_zero: tuple[int, ...] = ()  # producers of this turn that must begin there
        self.touched = False
        self.wrote = False  # since the last sync round of its directory began
        self.gone = False
        self.held = (
            False  # for the last moment of a move: what is produced waits, what we write not
        )
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
        """Its directory has failed, or somebody else has removed its files."""
        return self.directory.failed is not None or self.log.failure is not None

    def configure(self, settings: "TopicSettings") -> None:
        self.settings = settings
        self.plain = settings.plain and not self.lane
        self.batch_bytes_max = settings.message_bytes_max
        self.timestamp_after_ms_max = settings.timestamp_after_ms_max
        self.log.config = settings.log
        self.flushes = settings.flushes and not self.directory.waits_for_sync
        if self.flushes and self.unsynced:
            self._flush_if_due()
            self.directory.wrote_its_own()
        self.leader.require(settings.min_insync, self.replicas)
        self._recount()

    def lane_is_empty(self) -> None:
        """Nothing can be overtaken any more."""
        self.plain = self.settings.plain

    def lead(self, epoch: int, isr: tuple[int, ...], *, replicas: int) -> None:
        """The controller has changed the leadership, the in-sync set or how many replicas are."""
        self.leading = True
        self.replicas = replicas
        if epoch != self.leader.epoch:
            self.admission.forget()
        self.leader.epoch = epoch
        self.leader.isr = isr
        self.leader.require(self.settings.min_insync, replicas)
        self._recount()

    def stop_leading(self) -> None:
        """Another node leads, or none does: whoever waits here asks elsewhere."""
        if self.leading:
            self.leading = False
            self.abandon(NotLeaderOrFollower(f"this node does not lead {self} any more"))

    def _recount(self) -> None:
        log = self.log
        counted = log.end_offset
        if self.directory.waits_for_sync or log.synced_offset < self.flushing_to:
            counted = log.synced_offset
        if self.leader.advance(counted):
            self.release()
            self.poke()

    def append_turn(self, now_ms: int, mono_ms: float) -> None:
        """Everything produced to this partition in this turn, in one write."""
        if self.gone or not self.leading:
            self._refuse_all()
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
        try:
            self.directory.check_writable()
            results = log.append(batches, self.leader.epoch, now_ms, start_at_zero)
        except DiskFull as failure:
            self.directory.filled_up(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        except DiskFailed as failure:
            self.directory.fail(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        self._count_written(before)
        # The file that says whose the records are is synced before the first answer: without it a
        # start could give them to another topic of the name.
        unnamed = log.metadata_unsynced
        everybody_waits = unnamed or log.synced_offset < self.flushing_to
        high_watermark = -1 if unnamed else self.leader.high_watermark
        append_time_ms = now_ms if self.settings.append_time else NO_TIMESTAMP
        for ticket, batch, result in zip(tickets, batches, results, strict=True):
            target = ticket[0]
            if type(result) is not int:
                target.failed(ticket, result)
            elif (target.acks == -1 or everybody_waits) and (
                needed := result + batch[1][LAST_OFFSET_DELTA] + 1
            ) > high_watermark:
                deadline = mono_ms + target.timeout_ms
                self.awaiting.append((needed, ticket, result, append_time_ms, deadline))
                target.waits(ticket)
            else:
                target.succeeded(ticket, result, append_time_ms)

    def _refuse_all(self) -> None:
        """It went, or its leadership did, in the turn in which these came. Its files may have
        another name by now: that they are not there would be no loss."""
        tickets, self.tickets, self.batches = self.tickets, [], []
        self.start_at_zero = ()
        self.touched = False
        error = absence(self)
        assert error is not None, "only what is not here refuses"
        self._fail(tickets, error)

    def _keep_held(self) -> None:
        """The batches are views of buffers that end with this turn."""
        self.batches = [
            (batch if isinstance(batch, bytes) else bytes(batch), header)
            for batch, header in self.batches
        ]
        self.touched = False

    def release_held(self, touch: Callable[["Partition"], None]) -> None:
        """What waited is written, or told that there is no such partition any more."""
        if not self.held:
            return
        self.held = False
        if self.gone:
            self._refuse_all()
        elif self.directory.failed:
            tickets, self.tickets, self.batches = self.tickets, [], []
            self._fail(tickets, KafkaStorageError(f"{self} is offline: {self.directory.failed}"))
        elif self.batches and not self.touched:
            touch(self)

    def _count_written(self, bytes_before: int) -> None:
        """The log has grown: it counts now, or after the next sync round."""
        directory, log = self.directory, self.log
        directory.unseen_bytes += log.appended_bytes - bytes_before
        directory.moved.add(self)
        if directory.full:
            directory.has_room()
        if log.metadata_unsynced:
            directory.wrote(self)
        if self.flushes and self._flush_if_due():
            return
        if not directory.waits_for_sync:
            if self.leader.advance(log.end_offset) and self.watchers:
                self.poke()
            if log.active is not self.segment:
                self.segment = log.active
                directory.wrote(self)
        elif not self.wrote:
            directory.wrote(self)

    @property
    def unsynced(self) -> bool:
        return self.log.synced_offset < self.log.end_offset

    def _flush_if_due(self) -> bool:
        """True if what was written has to be synced before it counts."""
        log, settings = self.log, self.settings
        if log.end_offset - log.synced_offset >= settings.flush_messages:
            self.flushing_to = log.end_offset
            self.directory.wrote(self)
        elif settings.flush_ms < UNBOUNDED and not self.flush_queued:
            self.directory.flushing.written(self)
        return log.synced_offset < self.flushing_to

    def append_own(self, batch: bytes, header: Header, now_ms: int) -> int | KafkaError:
        """A coordinator's batch, at once: the offset it got, or why the log refuses it."""
        epoch = self.leader.epoch
        return self._write(lambda: self.log.append([(batch, header)], epoch, now_ms)[0])

    def append_marker(
        self,
        marker: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transactions_v2: bool,
        now_ms: int,
    ) -> int:
        """The end of a producer's transaction here, at once: the offset of the marker. What was
        produced in this turn must be written before."""
        assert self.held or not self.batches, "a marker comes after what it ends"
        offset = self._write(
            lambda: self.log.append_control(
                marker,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                leader_epoch=self.leader.epoch,
                now_ms=now_ms,
                transactions_v2=transactions_v2,
            )
        )
        self.admission.ended(producer_id)
        for (waiting, _epoch), joining in self.joining.items():
            if waiting == producer_id:
                joining.ended = True
        return offset

    def knows(self, producer_id: int) -> bool:
        return producer_id in self.log.producers.states

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether this producer writes in a transaction here already, vouched for by its
        coordinator (see admission.py)."""
        if self.admission.vouched.get(producer_id) != epoch:
            return False
        state = self.log.producers.states.get(producer_id)
        return state is not None and state[TXN_FIRST_OFFSET] >= 0 and state[EPOCH] == epoch

    def when_committed(self, offset: int, done: Callable[[KafkaError | None], None]) -> None:
        """Call when everything below `offset` is committed, or can not be any more."""
        if offset <= self.leader.high_watermark and not self.log.metadata_unsynced:
            done(None)
        else:
            ticket = (Committed(done), None, None, 0)
            self.awaiting.append((offset, ticket, offset, NO_TIMESTAMP, inf))

    def _write(self, write: Callable[[], T]) -> T:
        """Write something of this node's own, outside of the turn's batches."""
        if (gone := absence(self)) is not None:
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
        """OffsetForLeaderEpoch: the largest epoch not above the given, and where it ends; (-1, -1)
        if it is newer than the leader's. A leader's own epoch counts before its first record."""
        latest, end_offset = self.log.epochs.latest, self.log.end_offset
        if epoch == self.leader.epoch:
            return epoch, end_offset
        if latest < epoch < self.leader.epoch:
            return epoch if latest < 0 else latest, end_offset
        return self.log.epoch_end(epoch)

    def delete_before(self, offset: int) -> None:
        """DeleteRecords: the log starts at `offset` from now on; its files follow in time."""
        self.log.advance_start_offset(offset)
        self.poke()

    def forget_old(self, now_ms: int, renamed: Renamed) -> None:
        """Drop segments by retention; `renamed` hears of the files to remove, after
        file.delete.delay.ms. May raise Cold."""
        if self.gone:
            return  # deleted while it was read in
        if self.log.delete_old_segments(now_ms, self.leader.high_watermark, renamed):
            self.poke()

    def synced(self) -> None:
        """The log's synced offset has moved."""
        if not self.gone:
            self.directory.moved.add(self)
            self._recount()
            if self.awaiting:
                self.release()

    def release(self) -> None:
        """Answer the producers whose records are now committed."""
        if self.log.metadata_unsynced:
            return
        awaiting, high_watermark = self.awaiting, self.leader.high_watermark
        while awaiting and awaiting[0][0] <= high_watermark:
            _needed, ticket, base_offset, append_time_ms, deadline = awaiting.popleft()
            target = ticket[0]
            target.succeeded(ticket, base_offset, append_time_ms)
            target.waited(ticket, deadline - target.timeout_ms)

    def expire(self, mono_ms: float, error: KafkaError) -> None:
        """Answer the producers whose time is up."""
        late = [entry for entry in self.awaiting if entry[-1] <= mono_ms]
        if late:
            self.awaiting = deque(entry for entry in self.awaiting if entry[-1] > mono_ms)
            self._give_up(late, error)

    def abandon(self, error: KafkaError) -> None:
        """The partition goes away (deleted, or its directory failed): nobody waits in vain."""
        awaiting, self.awaiting = self.awaiting, deque()
        self._give_up(awaiting, error)
        self.poke()

    def _give_up(self, entries: Iterable[Awaiting], error: KafkaError) -> None:
        for _needed, ticket, _base_offset, _append_time_ms, deadline in entries:
            target = ticket[0]
            target.failed(ticket, error)
            target.waited(ticket, deadline - target.timeout_ms)

    def _fail(self, tickets: list[tuple[Any, Any, Any, int]], error: KafkaError) -> None:
        for ticket in tickets:
            ticket[0].failed(ticket, error)

    def poke(self) -> None:
        """Tell those who wait for data that there may be some."""
        for watcher in list(self.watchers) if len(self.watchers) > 1 else self.watchers:
            watcher.poke()
