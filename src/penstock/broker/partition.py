"""One partition that this node hosts: its log, its leadership, who waits for it.

Appends of a turn collect in `batches` and go to the log in one call when the turn ends. The
fields are plain and the tickets are tuples because every produced batch passes here.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from penstock.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower
from penstock.log.log import Log
from penstock.model import NO_TIMESTAMP
from penstock.replication.leader import Leader
from penstock.wire.batch import Header
from penstock.world import Buffer, DiskFailed, DiskFull

if TYPE_CHECKING:
    from penstock.broker.directory import Directory
    from penstock.broker.topic_settings import TopicSettings

LAST_OFFSET_DELTA = 6  # where it stands in an unpacked batch header


class Partition:
    """A hosted partition. `log` is None while its directory is offline."""

    __slots__ = (
        "awaiting",
        "batch_bytes_max",
        "batches",
        "directory",
        "gone",
        "index",
        "leader",
        "leading",
        "log",
        "plain",
        "segment",
        "settings",
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
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.directory = directory
        self.log = log
        self.leader = leader
        self.settings = settings
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
        self.leader.min_insync = settings.min_insync
        self._recount()

    def lead(self, epoch: int, isr: tuple[int, ...]) -> None:
        """The controller has changed the leadership or the in-sync set."""
        self.leading = True
        self.leader.epoch = epoch
        self.leader.isr = isr
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
        self.touched = False
        log = self.log
        try:
            if self.directory.failed:
                raise DiskFailed(f"{self.directory.disk.root} is offline")
            results = log.append(batches, self.leader.epoch, now_ms)
        except DiskFull as failure:
            self.directory.filled_up(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        except DiskFailed as failure:
            self.directory.fail(failure)
            self._fail(tickets, KafkaStorageError(str(failure)))
            return
        directory = self.directory
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
