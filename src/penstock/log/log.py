"""One partition's log: appends, reads, rolls, truncates and deletes.

Invariants: offsets are given once and rise; memory changes only after a successful write; durable
bytes are a prefix that ends at `synced_offset`.

The log makes no batch objects and keeps nothing per batch. Files of closed segments, snapshots and
epochs are written off the loop, in order (files.Chores); recovery.py handles missing ones.
append_stage.py stages, lookup.py finds, retention.py and truncation.py delete.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from penstock.errors import KafkaError, OffsetOutOfRange
from penstock.log import lookup, retention, truncation
from penstock.log.append_stage import SegmentStage, stage_produced, stage_stored
from penstock.log.checkpoints import format_epochs
from penstock.log.config import LogConfig
from penstock.log.corrupt_batches import Damaged, format_damaged
from penstock.log.directory import (
    DAMAGE_FILE,
    EPOCHS_FILE,
    INDEX,
    LOG,
    METADATA_FILE,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    WINDOW_FILE,
    format_metadata,
    segment_file,
)
from penstock.log.epochs import LeaderEpochs
from penstock.log.files import Chores, FileCache
from penstock.log.holes import NO_HOLES, Holes
from penstock.log.lookup import LogRead, TimeSearch
from penstock.log.producers import Producers, check_marker
from penstock.log.retention import Renamed
from penstock.log.segment import NEVER, ActiveSegment, ClosedSegment
from penstock.log.segment_close import persist_segment
from penstock.log.transactions import pack_aborted
from penstock.model import NO_LEADER_EPOCH
from penstock.wire.batch import LEADER_EPOCH, Header, build_marker
from penstock.world import Buffer, Disk, DiskFailed, DiskFull, Done, File, FileLost

# Turns up to this size are joined: one copy is cheaper than many parts.
_JOIN_BYTES_MAX = 64 * 1024


@dataclass(slots=True)
class LogRecovery:
    """The work of opening a log."""

    scanned_bytes: int = 0
    truncated_bytes: int = 0
    segments_rebuilt: int = 0
    segments_removed: int = 0
    # Files of whole segments behind a hole, which are not part of the log; the oldest first.
    kept_segments: list[str] = field(default_factory=list)
    # Durable batches that no longer match their checksum; kept.
    corrupt: list[Damaged] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    # The end of a log that ended below its start offset, and the directory that keeps its records.
    ended_at: int = 0
    set_aside: str = ""
    full: DiskFull | None = None  # some files could not be written
    salvaged: bool = False  # an operator gave up the lost records


class LogExists(DiskFailed):
    """The directory of a new log holds a log already."""


def make_files(disk: Disk, directory: str, topic_id: bytes | None, start_offset: int = 0) -> File:
    """Make the files of a new log, on any thread. Raise LogExists if there is a log."""
    if disk.exists(directory) and any(name.endswith(LOG) for name in disk.list(directory)):
        raise LogExists(
            f"{disk.root}/{directory} holds a log already; a new one is not made over it"
        )
    disk.make_directory(directory)
    # The segment first: a directory with metadata and no segment has lost records.
    segment = segment_file(directory, start_offset, LOG)
    file = disk.open(segment, create=True)
    if topic_id is not None:
        try:
            disk.put_now(f"{directory}/{METADATA_FILE}", format_metadata(topic_id))
        except DiskFailed:
            file.close()
            disk.remove_now(segment)  # the next attempt would find a log
            raise
    file.park()  # many partitions are made at once, and few are written to
    return file


class Log:
    """A log made by `create` or, from existing files, by `recovery.open_log`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        active: ActiveSegment,
        *,
        files: FileCache | None = None,
        failed: Callable[[DiskFailed], None] | None = None,
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.config = config
        self.files = files if files is not None else FileCache(disk)
        self.files.drop_within(directory)  # of an earlier log with this name
        self.active = active
        self.closed: list[ClosedSegment] = []
        self._bases: list[int] = []
        self.start_offset = active.base_offset
        self.end_offset = active.base_offset
        self.synced_offset = active.base_offset
        self.epochs = LeaderEpochs()
        self.producers = Producers()
        self.chores = Chores(disk, failed)
        # Separate from the others: renames free a full disk that stalls the others.
        self.removals = Chores(disk, failed)
        self.snapshots: list[int] = []
        # Snapshots that are not written yet, with their bytes.
        self.owed_snapshots: dict[int, bytes] = {}
        self.damaged: list[Damaged] = []  # ordered by offset
        self.holes: Holes = NO_HOLES  # as the file in the directory tells
        self.recovery = LogRecovery()
        self._unsynced: dict[File, None] = {}
        self._reserved: dict[File, None] = {}  # preallocated files
        self._round_ceiling = NEVER
        # The limit while owed files wait for room, because the next start must scan from here
        # (opening.py).
        self.recovery_point_max = NEVER
        self._truncating = False
        self.truncated_from = NEVER  # records from there on are about to be removed
        self._epoch_unwritten = False  # the epoch of this leader has no batch so far
        self.swapping = False  # a swap of compacted segments runs: see segment_swap.py
        self.moving = False  # the cutover to another disk runs: see future_log.py
        # Called when one more segment is closed and durable.
        self.segment_closed: Callable[[], None] = _ignore_closed_segment
        self.metadata_unsynced = False
        self._metadata_in_round = False
        self.appended_from = active.base_offset  # the end offset at opening
        self.appended_bytes = 0  # since opening

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        topic_id: bytes | None,
        config: LogConfig,
        now_ms: int,
        *,
        start_offset: int = 0,
        file: File | None = None,
        files: FileCache | None = None,
        failed: Callable[[DiskFailed], None] | None = None,
    ) -> "Log":
        """Make an empty log, with the `file` of `make_files` or a new one. The first sync round
        syncs it. Raise LogExists if the directory holds a log."""
        if file is None:
            file = make_files(disk, directory, topic_id, start_offset)
        log = cls(
            disk,
            directory,
            config,
            ActiveSegment(start_offset, file, now_ms),
            files=files,
            failed=failed,
        )
        log.metadata_unsynced = topic_id is not None
        log._unsynced[file] = None
        log._reserve(file)
        return log

    # ---- offsets and sizes

    @property
    def last_stable_offset(self) -> int:
        """Return the first offset of an open transaction, or the end
        offset. Ignores replication."""
        ongoing = self.producers.ongoing
        return next(iter(ongoing)) if ongoing else self.end_offset

    def stable_offset(self, high_watermark: int) -> int:
        """Return the limit of read_committed consumers: all transactions below have ended, with
        replicated markers."""
        first = self.producers.first_unstable(high_watermark)
        return high_watermark if first is None or first > high_watermark else first

    @property
    def size(self) -> int:
        """Return the bytes of all segments."""
        return self.active.size + sum(segment.size for segment in self.closed)

    def sizes(self) -> dict[int, int]:
        """Return the bytes of each segment's log, by base offset."""
        sizes = {segment.base_offset: segment.size for segment in self.closed}
        sizes[self.active.base_offset] = self.active.size
        return sizes

    def segments_from(self, offset: int) -> Iterator[ActiveSegment | ClosedSegment]:
        """Yield the segment with `offset`, and those after it."""
        if offset < self.active.base_offset:
            yield from self.closed[max(0, bisect_right(self._bases, offset) - 1) :]
        yield self.active

    @property
    def appended_records(self) -> int:
        """Return the records appended since opening, including truncated ones."""
        return self.end_offset - self.appended_from

    # ---- appending

    def append(
        self,
        batches: Sequence[tuple[Buffer, Header]],
        leader_epoch: int,
        now_ms: int,
        start_at_zero: Collection[int] = (),
    ) -> list[int | KafkaError]:
        """Store a turn's batches as the leader; return one result per batch, in order.

        A result is the new offset, the old offset of a duplicate, or the error of a rejected batch.
        Unknown producers in `start_at_zero` must begin with sequence 0. Raises DiskFailed, with
        nothing changed, if the write fails.
        """
        self._check_writable()
        stages, results = stage_produced(self, batches, leader_epoch, now_ms, start_at_zero)
        if stages[-1].end_offset != self.end_offset:
            self._write(stages, leader_epoch, now_ms)
        return results

    def append_control(
        self,
        marker: int,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int,
        transactions_v2: bool = False,
    ) -> int:
        """Write the marker that ends a producer's transaction here; return its offset. Raise
        InvalidProducerEpoch or TransactionCoordinatorFenced for a late marker."""
        self._check_writable()
        state = self.producers.states.get(producer_id)
        check_marker(state, producer_epoch, coordinator_epoch, transactions_v2)
        offset = self.end_offset
        batch = build_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
            base_offset=offset,
            leader_epoch=leader_epoch,
        )
        self._append_stored(batch, now_ms)
        return offset

    def append_as_follower(self, data: Buffer, now_ms: int) -> int:
        """Store batches that carry offsets and epochs; return the new end offset.

        An incomplete last batch is dropped, because fetch responses may end so. Stores nothing and
        raises CorruptMessage for bad batches, UnrecordedHoles for holes (see `record_holes`).
        """
        self._check_writable()
        self._append_stored(data, now_ms)
        return self.end_offset

    def _append_stored(self, data: Buffer, now_ms: int) -> None:
        stages = stage_stored(self, data, now_ms)
        if stages[-1].end_offset != self.end_offset:
            self._write(stages, NO_LEADER_EPOCH, now_ms)

    @property
    def failure(self) -> DiskFailed | None:
        """Return the failure of work off the loop; after it the log rejects appends."""
        return self.chores.failure or self.removals.failure

    @property
    def lost(self) -> FileLost | None:
        """Return the error of a file that another process removed or cut."""
        failure = self.chores.failure or self.removals.failure
        return failure if isinstance(failure, FileLost) else None

    def give_up(self, failure: DiskFailed) -> None:
        """Reject further appends: their records could not be found again."""
        self.chores.failure = self.chores.failure or failure

    def disown(self) -> None:
        """Stop all work on the files, which have another owner now or will be removed."""
        self.chores.end()
        self.removals.end()

    @property
    def truncating(self) -> bool:
        """Return whether a truncation is not durable yet; nothing is appended until then."""
        return self._truncating

    @property
    def busy(self) -> bool:
        """Return whether work off the loop is in flight."""
        return self.chores.busy or self.removals.busy

    def _check_writable(self) -> None:
        if self.failure is not None:
            raise self.failure
        assert not self._truncating, "nothing is appended until a truncation is done"

    def roll_ms(self, base_offset: int) -> int:
        """Return the time limit of a segment; jitter spreads the rolls of many partitions."""
        config = self.config
        if config.segment_jitter_ms <= 0:
            return config.segment_ms
        # Not random, so that a simulation repeats, but different for every segment.
        spread = crc32c(f"{self.directory}/{base_offset}".encode())
        return config.segment_ms - spread % min(config.segment_jitter_ms, config.segment_ms)

    def _write(self, stages: list[SegmentStage], leader_epoch: int, now_ms: int) -> None:
        """Write all stages, then apply them to memory; on failure undo the writes. `leader_epoch`
        is that of the whole turn, or -1 if each batch carries its own."""
        first = stages[0]
        if len(stages) == 1:
            parts: Sequence[Buffer] = first.parts
            if len(parts) > 1 and first.size - first.position <= _JOIN_BYTES_MAX:
                parts = (b"".join(parts),)
            try:
                self.active.file.append(parts)
            except FileLost as failure:
                self.give_up(failure)
                raise
            self._commit(first, leader_epoch)
            return
        made: list[File] = []
        try:
            if first.parts:
                self.active.file.append(first.parts)
            for stage in stages[1:]:
                made.append(self._make_file(stage.base_offset))
                made[-1].append(stage.parts)
        except DiskFailed as failure:
            self._take_back(first, stages[1 : len(made) + 1], made)
            if isinstance(failure, FileLost):
                self.give_up(failure)
            raise
        if first.parts:
            self._commit(first, leader_epoch)
        for stage, file in zip(stages[1:], made, strict=True):
            self._start_segment(ActiveSegment(stage.base_offset, file, now_ms))
            self._commit(stage, leader_epoch)

    def _take_back(self, first: SegmentStage, stages: list[SegmentStage], made: list[File]) -> None:
        """Undo a turn that was written in part. Waits for the disk, as no other step of a turn
        does: a later undo would meet the next turn's writes to the same names."""
        try:
            if self.active.file.size > first.position:
                self.active.file.truncate_now(first.position)
            for stage, file in zip(stages, made, strict=True):
                file.close()
                self._reserved.pop(file, None)
                self.disk.remove_now(segment_file(self.directory, stage.base_offset, LOG))
        except DiskFailed as failure:
            self.chores.failure = failure

    def _commit(self, stage: SegmentStage, leader_epoch: int) -> None:
        active = self.active
        active.size = stage.size
        active.largest_timestamp = stage.largest_timestamp
        active.largest_offset = stage.largest_offset
        active.first_timestamp = stage.first_timestamp
        active.unindexed_bytes = stage.unindexed_bytes
        for last, position, timestamp, timestamp_offset in stage.entries:
            active.index.add(last - active.base_offset, position)
            active.times.add(timestamp, timestamp_offset - active.base_offset)
        active.remember(stage.start_offset, stage.position)
        self.appended_bytes += stage.size - stage.position
        self.end_offset = stage.end_offset
        self._unsynced[active.file] = None
        if stage.producers:
            self.producers.commit(stage.producers, stage.started)
        if leader_epoch > self.epochs.latest:
            self.assign_epoch(leader_epoch, stage.start_offset)
        elif self._epoch_unwritten:
            self._epoch_unwritten = False
            if len(self.epochs.epochs) > 1:
                self.write_epochs()
        for header, base_offset, marker in stage.replay:
            if header[LEADER_EPOCH] > self.epochs.latest:
                self.assign_epoch(header[LEADER_EPOCH], base_offset)
            aborted = self.producers.replay(header, base_offset, marker)
            if aborted is not None:
                active.aborted += pack_aborted(aborted)

    def assign_epoch(self, leader_epoch: int, offset: int) -> None:
        """Note that a leader's epoch begins at `offset`.

        The first epoch of a fresh log is written with its segment: recovery finds it in the
        batches. Later ones are written at once, because a leader may change without a batch.
        """
        if self.epochs.assign(leader_epoch, offset) and len(self.epochs.epochs) > 1:
            self.write_epochs()

    @property
    def latest_epoch(self) -> int:
        """Return the last leader epoch of the log; -1 without one."""
        return self.epochs.latest

    def begin_epoch(self, leader_epoch: int) -> None:
        """Note that the epoch of a new leader begins at the end of the log. The epoch is written
        with its first batch; without a batch no follower has records of the epoch."""
        if leader_epoch > self.epochs.latest and self.epochs.assign(leader_epoch, self.end_offset):
            self._epoch_unwritten = True

    def write_epochs(self) -> None:
        path = f"{self.directory}/{EPOCHS_FILE}"
        self.chores.replace(path, format_epochs(self.epochs.entries()))

    # ---- rolling

    def roll(self, now_ms: int) -> bool:
        """Begin a new segment at the end offset; return False if the active one is empty."""
        self._check_writable()
        if self.active.size == 0:
            return False
        file = self._make_file(self.end_offset)
        self._start_segment(ActiveSegment(self.end_offset, file, now_ms))
        return True

    def _make_file(self, base_offset: int) -> File:
        try:
            file = self.disk.open(segment_file(self.directory, base_offset, LOG), create=True)
        except FileLost as failure:
            self.give_up(failure)
            raise
        if file.size > 0:
            # Batches behind foreign bytes are not where the index puts them.
            foreign = FileLost(f"{self.disk.root}/{file.path} is in the way: it is no file of ours")
            self.give_up(foreign)
            raise foreign
        self._reserve(file)
        return file

    def _reserve(self, file: File) -> None:
        """Preallocate the segment if the topic wants that. A full disk fails at a later write
        instead."""
        if self.config.preallocate:
            self._reserved[file] = None
            file.reserve(self.config.segment_bytes, lambda _failure: None)

    def adopt(self, closed: list[ClosedSegment]) -> None:
        """Replace the list of closed segments."""
        self.closed = closed
        self._bases = [segment.base_offset for segment in closed]

    def _start_segment(self, active: ActiveSegment) -> None:
        old = self.active
        self.active = active
        self._unsynced[active.file] = None
        if old.size == 0 and old.base_offset == active.base_offset:
            return
        old.finish()
        old.forget_positions()
        closed = ClosedSegment.after_roll(self.directory, old, active.base_offset)
        self.files.put(closed.path(LOG), old.file)
        self.closed.append(closed)
        self._bases.append(closed.base_offset)
        # An earlier process may have preallocated too.
        cut = old.file in self._reserved or self.config.preallocate
        self._reserved.pop(old.file, None)
        persist_segment(self, closed, old, cut=cut)

    # ---- reading

    def read(
        self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool
    ) -> LogRead:
        """Return whole batches from the one with `offset` on, within one segment, below
        `upper_offset`.

        At most `max_bytes`, unless the first batch is larger and `min_one_batch` is set. Empty at
        or above `upper_offset`. May raise Cold.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in [{self.start_offset}, {self.end_offset}]"
            )
        if offset >= upper_offset:
            return LogRead(None, 0, 0, offset, offset)
        active = self.active
        if offset >= active.base_offset:
            start = active.recall(offset)
            if start is not None:
                end: int | None = active.size
                if upper_offset < self.end_offset:
                    end = active.recall(upper_offset)
                if end is not None and end - start <= max_bytes:
                    return LogRead(
                        active.file, start, end - start, upper_offset, active.base_offset
                    )
        return lookup.read(self, offset, max_bytes, upper_offset, min_one_batch)

    def search_time(self, timestamp: int) -> TimeSearch:
        """Return a search for the first record at or after a time; its steps may raise Cold."""
        return lookup.search_time(self, timestamp)

    def search_largest_time(self) -> TimeSearch:
        """Return a search for the first record with the largest timestamp. May raise Cold."""
        return lookup.search_largest_time(self)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below the given and its end offset (OffsetForLeaderEpoch);
        (-1, -1) for a newer epoch."""
        return self.epochs.end_of(leader_epoch, self.end_offset)

    def aborted_transactions(self, first_offset: int, upper_offset: int) -> list[tuple[int, int]]:
        """Return (producer id, first offset) of aborted transactions in a range. May raise Cold."""
        return lookup.aborted_transactions(self, first_offset, upper_offset)

    # ---- durability

    @property
    def recovery_point(self) -> int:
        """Return the offset for the recovery-point checkpoint: all bytes before it are durable, and
        so are the indexes and the snapshot of every segment that ends before it."""
        offset = min(self.synced_offset, self.recovery_point_max, self.truncated_from)
        for segment in reversed(self.closed):
            if segment.memory is None:
                break
            # A start scans the whole segment that holds the recovery point.
            offset = min(offset, segment.end_offset - 1)
        return offset

    def free_recovery_point(self) -> None:
        """Lift the limit: all owed files are written."""
        self.recovery_point_max = NEVER

    @property
    def unsynced(self) -> bool:
        return bool(self._unsynced)

    def mark_unsynced(self, file: File) -> None:
        self._unsynced[file] = None

    def begin_sync(self) -> tuple[list[File], int]:
        """Return the files for a sync round, and the offset to report after it. The call may be
        repeated after DiskFailed."""
        files = list(self._unsynced)
        if self.metadata_unsynced:
            try:
                named = self.disk.open(f"{self.directory}/{METADATA_FILE}")
                named.park()  # the round opens a descriptor for the file
                files.append(named)
            except FileNotFoundError:
                where = f"{self.disk.root}/{self.directory}/{METADATA_FILE}"
                lost = FileLost(f"{where} is gone: another process has removed it")
                self.give_up(lost)
                raise lost from None
        self._metadata_in_round = self.metadata_unsynced
        self._unsynced.clear()
        self._round_ceiling = NEVER
        return files, self.end_offset

    def not_synced(self, files: Sequence[File]) -> None:
        """Take back the files of a failed sync round."""
        for file in files:
            if not file.path.endswith(METADATA_FILE):  # reopened for the next round
                self._unsynced[file] = None

    def synced_to(self, offset: int) -> None:
        """Note the success of the sync round that `begin_sync` began. One round runs at a time."""
        offset = min(offset, self._round_ceiling)
        self.synced_offset = max(self.synced_offset, offset)
        if self._metadata_in_round:
            self._metadata_in_round = self.metadata_unsynced = False

    def all_is_synced(self) -> None:
        """Note that the caller has synced all files."""
        self._unsynced.clear()
        self._reserved.clear()
        self.metadata_unsynced = False
        self.synced_offset = self.end_offset

    # ---- deletion and truncation

    def advance_start_offset(self, offset: int) -> None:
        """Delete the records below `offset` (DeleteRecords). Raise OffsetOutOfRange
        beyond the end."""
        retention.advance_start(self, offset)

    def delete_old_segments(self, now_ms: int, upper_offset: int, renamed: Renamed) -> int:
        """Drop segments by retention or below the start offset; return how many.

        Segments that reach beyond `upper_offset`, the high watermark, stay. The files are renamed
        off the loop; `renamed` receives the renamed ones and removes them after
        file.delete.delay.ms. May raise Cold.
        """
        self.chores.retry()
        self.removals.retry()
        if self.swapping or self.moving:
            return 0  # a later call deletes the same segments
        return retention.delete_old_segments(self, now_ms, upper_offset, renamed)

    def remove_expired_producers(self, now_ms: int) -> int:
        return self.producers.remove_expired(now_ms, self.config.producer_expiration_ms)

    def announce_truncation(self, offset: int) -> None:
        """Keep the recovery point below what goes, until the truncation at `offset` is durable."""
        self.truncated_from = truncation.last_kept_base(self, offset)

    def truncate_to(self, offset: int, now_ms: int, done: Done) -> None:
        """Remove everything from `offset` on; a batch that contains the offset goes as a whole.

        May raise Cold. The caller has announced the truncation, and checkpointed the recovery
        points. Appends must wait until `done`. Forbidden while `swapping`.
        """
        self._check_writable()
        truncation.truncate_to(self, offset, now_ms, done)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int, done: Done) -> None:
        """Restart the log, empty, at `offset`; the duties are those of truncate_to."""
        self._check_writable()
        truncation.truncate_fully(self, offset, now_ms, done)

    def shorten(self, active: ActiveSegment, closed: list[ClosedSegment], end_offset: int) -> None:
        """Set the remaining segments and the end offset, for truncation."""
        assert not self.swapping, "a log that takes segments over is not truncated"
        self._truncating = True
        kept = {segment.path(LOG) for segment in closed} | {active.file.path}
        self._unsynced = {file: None for file in self._unsynced if file.path in kept}
        self._unsynced[active.file] = None
        self._reserved.clear()  # truncated files have no preallocated bytes
        self.files.drop(segment_file(self.directory, active.base_offset, LOG))
        self.adopt(list(closed))
        self.active = active
        self.appended_from -= self.end_offset - end_offset
        self.end_offset = end_offset
        self.damaged = [each for each in self.damaged if each.offset < end_offset]
        self.synced_offset = min(self.synced_offset, end_offset)
        self._round_ceiling = min(self._round_ceiling, end_offset)

    def finish_truncation(self, done: Done) -> None:
        def finished() -> None:
            self._truncating = False
            self.truncated_from = NEVER
            done(None)

        self.chores.then(finished)

    def close(self) -> None:
        """Write all files of a clean stop, as Kafka leaves them; only when `busy` is false.

        The method syncs nothing: a node closes thousands of logs and then calls
        `disk.sync_everything_now` once, before it records the clean stop.
        """
        if self.failure is not None:
            raise self.failure
        active, directory, disk = self.active, self.directory, self.disk
        active.finish()
        stalled = [segment.memory for segment in self.closed if segment.memory is not None]
        for segment in (*stalled, active):
            base_offset = segment.base_offset
            aborted = segment_file(directory, base_offset, TXN_INDEX)
            if segment.aborted:
                disk.put_now(aborted, bytes(segment.aborted))
            else:
                disk.remove_now(aborted)
            times = bytes(segment.times.data)
            disk.put_now(segment_file(directory, base_offset, TIME_INDEX), times)
            index = segment.index.to_bytes()
            disk.put_now(segment_file(directory, base_offset, INDEX), index)
        disk.put_now(f"{directory}/{EPOCHS_FILE}", format_epochs(self.epochs.entries()))
        for end_offset, producers in self.owed_snapshots.items():
            if end_offset in self.snapshots:
                disk.put_now(segment_file(directory, end_offset, SNAPSHOT), producers)
        if self.end_offset not in self.snapshots and self.end_offset > 0:
            snapshot = segment_file(directory, self.end_offset, SNAPSHOT)
            disk.put_now(snapshot, self.producers.to_snapshot())
        if self.damaged:
            disk.put_now(f"{directory}/{DAMAGE_FILE}", format_damaged(self.damaged))
        window = self.producers.to_window(self.end_offset)
        if window is not None:
            disk.put_now(f"{directory}/{WINDOW_FILE}", window)
        self._unsynced.clear()
        self.synced_offset = self.end_offset
        if self._reserved or self.config.preallocate:
            active.file.truncate_now(active.size)
        active.file.close()


def _ignore_closed_segment() -> None:
    """Ignore a closed segment."""
