"""One partition that this node hosts: its log, its leadership, who waits for it.

Appends of a turn collect in `batches` and go to the log in one call when the turn ends. The
fields are plain and the tickets are tuples because every produced batch passes here.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.broker.admission import Admission
from penstock.errors import KafkaError, KafkaStorageError, NotEnoughReplicas, NotLeaderOrFollower
from penstock.log.log import Log
from penstock.log.producers import EPOCH, TXN_FIRST_OFFSET
from penstock.model import NO_TIMESTAMP
from penstock.replication.leader import Leader
from penstock.wire.batch import LAST_OFFSET_DELTA, Header
from penstock.world import Buffer, DiskFailed, DiskFull

if TYPE_CHECKING:
    from penstock.broker.directory import Directory
    from penstock.broker.joining import Joining
    from penstock.broker.topic_settings import TopicSettings

T = TypeVar("T")


class Committed:
    """Something of this node's own that waits for the high watermark, among the producers."""

    __slots__ = ("_done",)

    def __init__(self, done: Callable[[KafkaError | None], None]) -> None:
        self._done = done

    def succeeded(self, _ticket: Any, _base_offset: int, _append_time_ms: int) -> None:
        self._done(None)

    def failed(self, _ticket: Any, error: KafkaError) -> None:
        self._done(error)


class Partition:
    """A hosted partition. While `directory.failed` its log is not to be used."""

    __slots__ = (
        "admission",
        "awaiting",
        "batch_bytes_max",
        "batches",
        "directory",
        "gone",
        "index",
        "joining",
        "leader",
        "leading",
        "log",
        "plain",
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
        # (offset the high watermark must reach, ticket, base offset, append time, deadline)
        self.awaiting: deque[tuple[int, tuple[Any, Any, Any, int], int, int, float]] = deque()
        self.watchers: dict[Any, None] = {}
        # (producer id, epoch) -> who waits until that producer's transaction reaches in here
        self.joining: dict[tuple[int, int], Joining] = {}
        self.admission = Admission()
        self.start_at_zero: tuple[int, ...] = ()  # producers of this turn that must begin there
        self.touched = False
        self.wrote = False  # since the last sync round of its directory began
        self.gone = False
        self.leading = True

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def configure(self, settings: "TopicSettings") -> None:
        self.settings = settings
        self.plain = settings.plain
        self.batch_bytes_max = settings.message_bytes_max
        self.timestamp_after_ms_max = settings.timestamp_after_ms_max
        self.log.config = settings.log
        self.leader.require(settings.min_insync, self.replicas)
        self._recount()

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
        counted = self.log.synced_offset if self.directory.waits_for_sync else self.log.end_offset
        if self.leader.advance(counted):
            self.release()
            self.poke()

    def append_turn(self, now_ms: int, mono_ms: float) -> None:
        """Everything produced to this partition in this turn, in one write."""
        batches, tickets = self.batches, self.tickets
        self.batches, self.tickets = [], []
        start_at_zero, self.start_at_zero = self.start_at_zero, ()
        self.touched = False
        log = self.log
        try:
            if self.directory.failed:
                raise DiskFailed(f"{self.directory.disk.root} is offline")
            results = log.append(batches, self.leader.epoch, now_ms, start_at_zero)
        except DiskFull as failure:
            self.directory.filled_up(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        except DiskFailed as failure:
            self.directory.fail(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        self._count_written()
        high_watermark = self.leader.high_watermark
        append_time_ms = now_ms if self.settings.append_time else NO_TIMESTAMP
        for ticket, batch, result in zip(tickets, batches, results, strict=True):
            target = ticket[0]
            if type(result) is not int:
                target.failed(ticket, result)
            elif (
                target.acks == -1
                and (needed := result + batch[1][LAST_OFFSET_DELTA] + 1) > high_watermark
            ):
                deadline = mono_ms + target.timeout_ms
                self.awaiting.append((needed, ticket, result, append_time_ms, deadline))
            else:
                target.succeeded(ticket, result, append_time_ms)

    def _count_written(self) -> None:
        """The log has grown: it counts now, or after the next sync round."""
        directory, log = self.directory, self.log
        if directory.full:
            directory.has_room()
        if not directory.waits_for_sync:
            if self.leader.advance(log.end_offset) and self.watchers:
                self.poke()
            if log.active is not self.segment:
                self.segment = log.active
                directory.wrote(self)
        elif not self.wrote:
            directory.wrote(self)

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
        assert not self.batches, "a marker comes after what it ends"
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
        if offset <= self.leader.high_watermark:
            done(None)
        else:
            ticket = (Committed(done), None, None, 0)
            self.awaiting.append((offset, ticket, offset, NO_TIMESTAMP, inf))

    def _write(self, write: Callable[[], T]) -> T:
        """Write something of this node's own, outside of the turn's batches."""
        if self.gone or not self.leading:
            raise NotLeaderOrFollower(f"this node does not lead {self} any more")
        if self.leader.below_min_insync:
            raise NotEnoughReplicas(f"{self} has too few in-sync replicas")
        try:
            if self.directory.failed:
                raise DiskFailed(f"{self.directory.disk.root} is offline")
            result = write()
        except DiskFull as failure:
            self.directory.filled_up(failure)
            raise KafkaStorageError(str(failure)) from None
        except DiskFailed as failure:
            self.directory.fail(failure)
            raise KafkaStorageError(str(failure)) from None
        self._count_written()
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

    def forget_old(self, now_ms: int) -> list[str]:
        """Drop segments by retention; the files to remove after file.delete.delay.ms."""
        removals = self.log.delete_old_segments(now_ms, self.leader.high_watermark)
        if removals:
            self.poke()
        return [path for removal in removals for path in removal.paths]

    def synced(self) -> None:
        """The log's synced offset has moved."""
        if not self.gone:
            self._recount()

    def release(self) -> None:
        """Answer the producers whose records are now committed."""
        awaiting, high_watermark = self.awaiting, self.leader.high_watermark
        while awaiting and awaiting[0][0] <= high_watermark:
            _needed, ticket, base_offset, append_time_ms, _deadline = awaiting.popleft()
            ticket[0].succeeded(ticket, base_offset, append_time_ms)

    def expire(self, mono_ms: float, error: KafkaError) -> None:
        """Answer the producers whose time is up."""
        late = [entry for entry in self.awaiting if entry[-1] <= mono_ms]
        if late:
            self.awaiting = deque(entry for entry in self.awaiting if entry[-1] > mono_ms)
            for _needed, ticket, *_ in late:
                ticket[0].failed(ticket, error)

    def abandon(self, error: KafkaError) -> None:
        """The partition goes away (deleted, or its directory failed): nobody waits in vain."""
        awaiting, self.awaiting = self.awaiting, deque()
        for _needed, ticket, *_ in awaiting:
            ticket[0].failed(ticket, error)
        self.poke()

    def _fail(self, tickets: list[tuple[Any, Any, Any, int]], error: KafkaError) -> None:
        for ticket in tickets:
            ticket[0].failed(ticket, error)

    def poke(self) -> None:
        """Tell those who wait for data that there may be some."""
        for watcher in list(self.watchers) if len(self.watchers) > 1 else self.watchers:
            watcher.poke()
