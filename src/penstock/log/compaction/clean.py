"""One cleaning of one log: read the newest offset of each key, then write the remaining records.

Reads the closed segments of the order and writes `.cleaned` files beside them; never touches a live
file. The map has a fixed size, and one chunk is in memory at a time. If the map is full, the
cleaning ends at an earlier offset (`cleaned_to`), and the next cleaning continues there.

Loads numpy, and numba if installed: meant for a process of its own.
"""

from collections.abc import Callable, Iterator, Sequence

from penstock.bulk.implementation import Implementation, chosen_implementation
from penstock.bulk.unused_pages import release_unused_pages
from penstock.log.compaction.batch_retention import (
    AbortedTransactions,
    BatchRetention,
    judge_for_keys,
    read_aborted,
)
from penstock.log.compaction.chunks import (
    POSITION,
    SIZE,
    CleaningEngine,
    RecordCounts,
    SegmentChunk,
    Table,
    Terms,
    chunks,
    position_of,
)
from penstock.log.compaction.cleaned_segment import CleanedSegment, remove_leftovers
from penstock.log.compaction.memory import map_bytes
from penstock.log.compaction.offset_map import OffsetMap
from penstock.log.compaction.order import (
    MAP_BYTES_PER_KEY,
    CleaningProgress,
    CleaningReport,
    CompactionStopped,
    Order,
    Say,
    Segment,
    SegmentGroup,
    Stop,
)
from penstock.log.directory import INDEX, TIME_INDEX, segment_file
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.wire.compression import unpacked_bytes_max
from penstock.world import Buffer, Disk

# Bytes between two progress reports.
SAY_EVERY_BYTES = 64 * 1024 * 1024
# With enough memory the map stays emptier: lookups are faster.
MAP_SLOTS_PER_KEY = 1.25
# A stop request waits at most this long for a pause to end.
PAUSE_SECONDS_MAX = 0.1
KERNELS = "penstock.log.compaction.kernels"
_LONG_MAX = 2**63 - 1

Clock = Callable[[], float]
Pause = Callable[[float], None]
Resident = Callable[[], int | None]
# Sizes in bytes of a segment's offset index and time index.
IndexSizes = Callable[[Segment], tuple[int, int]]


def _no_time() -> float:
    return 0.0


def _no_pause(seconds: float) -> None:
    """Skip the pause: a simulation never sleeps."""


def clean(
    disk: Disk,
    order: Order,
    say: Say,
    stop: Stop,
    *,
    clock: Clock = _no_time,
    pause: Pause = _no_pause,
    resident_bytes: Resident | None = None,
    engine: CleaningEngine | None = None,
) -> CleaningReport:
    """Clean a log once, and report each group of segments when its files are complete and synced.

    `clock` (seconds) and `pause` keep to the order's bytes per second. A process that only cleans
    passes `resident_bytes`, its memory so far: then memory.py limits the whole process. Raises
    DiskFailed, CompactionRejected or CompactionStopped. Groups reported before stay valid; the next
    cleaning removes other `.cleaned` files.
    """
    engine = engine or chosen_engine()
    map_bytes_max = order.map_bytes_max
    if resident_bytes is not None:
        # Only now is everything loaded.
        release_unused_pages()
        map_bytes_max = map_bytes(map_bytes_max, resident_bytes())
    return _Cleaning(disk, order, say, stop, clock, pause, engine, map_bytes_max).run()


def chosen_engine() -> CleaningEngine:
    """Return the compiled engine if numba is installed, else the plain one."""
    if chosen_implementation() is Implementation.NUMBA:
        from penstock.bulk.compiler_process import fill_cache

        fill_cache(KERNELS)
        from penstock.log.compaction.compiled import CompiledEngine

        return CompiledEngine()
    from penstock.log.compaction.plain import PlainEngine

    return PlainEngine()


class _Cleaning:
    def __init__(
        self,
        disk: Disk,
        order: Order,
        say: Say,
        stop: Stop,
        clock: Clock,
        pause: Pause,
        engine: CleaningEngine,
        map_bytes_max: int,
    ) -> None:
        self._disk = disk
        self._order = order
        self._say = say
        self._stop = stop
        self._clock = clock
        self._pause = pause
        self._engine = engine
        self._map_bytes_max = map_bytes_max
        upper = order.upper_offset
        self._segments = [each for each in order.segments if each.end_offset <= upper]
        self._upper_offset = self._segments[-1].end_offset if self._segments else 0
        # The last cleaning may have ended beyond these segments.
        self._start_offset = max(order.first_dirty_offset, order.start_offset)
        self._counts = RecordCounts()
        self._bytes_read = 0
        self._bytes_written = 0
        self._total_bytes = sum(segment.size for segment in self._segments)
        self._step = ""
        self._said_bytes = 0
        self._started = clock()

    def run(self) -> CleaningReport:
        order = self._order
        remove_leftovers(self._disk, order.directory)
        aborted = read_aborted(self._disk, order)
        keys = self._engine.new_map(self._map_bytes(), order.map_load_max, order.hash_seed)
        cleaned_to = self._read_keys(keys, aborted)
        groups = self._copy(keys, aborted, cleaned_to)
        return CleaningReport(
            groups=groups,
            cleaned_to=cleaned_to,
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
            records_read=self._counts.read,
            records_kept=self._counts.kept,
            keyless_dropped=self._counts.keyless,
            flawed_kept=self._counts.flawed,
            map_used=keys.size * MAP_BYTES_PER_KEY / self._map_bytes_max,
            seconds=self._clock() - self._started,
        )

    def _map_bytes(self) -> int:
        """Return the allowed size, or less if the dirty range has fewer offsets than the map has
        slots."""
        offsets = max(0, self._upper_offset - self._start_offset) + 1
        slots = int(offsets * max(MAP_SLOTS_PER_KEY, 1 / self._order.map_load_max)) + 1
        return min(self._map_bytes_max, slots * MAP_BYTES_PER_KEY)

    # ---- the first pass

    def _read_keys(self, keys: OffsetMap, aborted: AbortedTransactions) -> int:
        """Fill the map from the dirty part; return the offset up to which the map
        knows all keys."""
        start = self._start_offset
        dirty = [each for each in self._segments if each.end_offset > start]
        self._step = "reading keys"
        self._total_bytes += sum(segment.size for segment in dirty)
        terms = self._terms(self._upper_offset)
        for segment in dirty:
            position = 0
            if segment.base_offset < start:
                position = position_of(self._disk, self._order.directory, segment, start)
                self._total_bytes -= position
            for chunk in self._chunks(segment, position):
                judge_for_keys(chunk, aborted)
                full_at = self._engine.learn(chunk, keys, start, terms)
                if full_at is not None:
                    assert full_at > start, "a map takes one key at least"
                    return full_at
        return max(self._upper_offset, self._order.first_dirty_offset)

    # ---- the second pass

    def _copy(self, keys: OffsetMap, aborted: AbortedTransactions, cleaned_to: int) -> int:
        order = self._order
        self._step = "copying"
        terms = self._terms(cleaned_to)
        verdicts = BatchRetention(order, self._upper_offset, aborted)
        groups = group_segments(
            [segment for segment in self._segments if segment.base_offset < cleaned_to],
            order.segment_bytes_max,
            order.index_bytes_max,
            self._index_sizes,
        )
        for segments in groups:
            self._say(self._copy_group(segments, keys, terms, verdicts))
        return len(groups)

    def _copy_group(
        self, segments: tuple[Segment, ...], keys: OffsetMap, terms: Terms, verdicts: BatchRetention
    ) -> SegmentGroup:
        cleaned = CleanedSegment(self._disk, self._order, segments)

        def write(data: Buffer, batches: Table) -> None:
            cleaned.write(data, batches)
            self._bytes_written += len(data)

        try:
            for segment in segments:
                for chunk in self._chunks(segment, 0):
                    verdicts.judge(chunk)
                    self._engine.sift(chunk, keys, terms, self._counts, write)
            aborted, verdicts.indexed = verdicts.indexed, []
            return cleaned.finish(aborted)
        except BaseException:
            cleaned.discard()
            raise

    def _index_sizes(self, segment: Segment) -> tuple[int, int]:
        paths = [
            segment_file(self._order.directory, segment.base_offset, suffix)
            for suffix in (INDEX, TIME_INDEX)
        ]
        offsets, times = (self._disk.size(path) if self._disk.exists(path) else 0 for path in paths)
        return offsets, times

    # ---- both

    def _terms(self, cleaned_to: int) -> Terms:
        order = self._order
        return Terms(
            start_offset=order.start_offset,
            cleaned_to=cleaned_to,
            now_ms=order.now_ms,
            delete_horizon_ms=min(order.now_ms + order.delete_retention_ms, _LONG_MAX),
            unpacked_bytes_max=unpacked_bytes_max(order.message_bytes_max),
        )

    def _chunks(self, segment: Segment, position: int) -> Iterator[SegmentChunk]:
        for chunk in chunks(self._disk, self._order.directory, segment, self._engine, position):
            self._go_on()
            yield chunk
            size = int(chunk.table[-1, POSITION] + chunk.table[-1, SIZE])
            self._bytes_read += size
            self._throttle()

    def _go_on(self) -> None:
        self._heed_stop()
        if self._bytes_read - self._said_bytes >= SAY_EVERY_BYTES:
            self._said_bytes = self._bytes_read
            self._say(CleaningProgress(self._bytes_read, self._total_bytes, self._step))

    def _heed_stop(self) -> None:
        if self._stop():
            raise CompactionStopped(self._order.directory)

    def _throttle(self) -> None:
        """Wait until the bytes read and written fit the allowed rate."""
        moved = self._bytes_read + self._bytes_written
        ahead = moved / self._order.io_bytes_per_second_max - (self._clock() - self._started)
        while ahead > 0:
            self._pause(min(ahead, PAUSE_SECONDS_MAX))
            ahead -= PAUSE_SECONDS_MAX
            self._heed_stop()


def group_segments(
    segments: Sequence[Segment],
    segment_bytes_max: int,
    index_bytes_max: int,
    index_sizes: IndexSizes,
) -> list[tuple[Segment, ...]]:
    """Return runs of neighbours to merge, so that cleaned segments do not shrink without end.

    The sizes of a run stay within the limits, and its offsets fit one index.
    """
    groups: list[tuple[Segment, ...]] = []
    run: list[Segment] = []
    size = offset_bytes = time_bytes = 0
    for segment in segments:
        more_offsets, more_times = index_sizes(segment)
        fits = (
            run
            and size + segment.size <= segment_bytes_max
            and offset_bytes + more_offsets <= index_bytes_max
            and time_bytes + more_times <= index_bytes_max
            # An empty segment needs no index entries, so its distance does not count.
            and (
                segment.size == 0
                or segment.end_offset - 1 - run[0].base_offset <= RELATIVE_OFFSET_MAX
            )
        )
        if run and not fits:
            groups.append(tuple(run))
            run, size, offset_bytes, time_bytes = [], 0, 0, 0
        run.append(segment)
        size += segment.size
        offset_bytes += more_offsets
        time_bytes += more_times
    if run:
        groups.append(tuple(run))
    return groups
