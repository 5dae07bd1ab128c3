"""Copies a log to another disk while appends go on, and then switches the log over.

The source replica's closed segments are copied first, then the tail of the active one, in rounds,
until little is missing. The future replica follows deletions of the source replica. Every closed
segment is synced once it is complete. The cutover needs a pause of appends: the last bytes are
copied and synced (`prepare`), and the future replica gets the partition's name (`take_over`). The
source replica keeps the name until broker/storage/move_sources.py renames it. At every step the
marks of future_log_markers.py decide which replica counts.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from penstock.log.checkpoints import read_whole
from penstock.log.directory import (
    DAMAGE_FILE,
    EPOCHS_FILE,
    HOLES_FILE,
    INDEX,
    LOG,
    METADATA_FILE,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    WINDOW_FILE,
    parse_segment_file,
    segment_file,
)
from penstock.log.files import Chores, FileCache
from penstock.log.future_log_markers import (
    FutureMark,
    SourceMark,
    clear_source_mark,
    read_future_marks,
    write_future_marks,
    write_source_mark,
)
from penstock.world import Disk, DiskFailed, DiskFull, File, FileLost, TooManyFiles

if TYPE_CHECKING:
    from penstock.log.log import Log
    from penstock.log.segment import ClosedSegment

PIECE_BYTES = 4 * 1024 * 1024
_SMALL_FILES = (EPOCHS_FILE, WINDOW_FILE, DAMAGE_FILE, HOLES_FILE, METADATA_FILE)
_SMALL_SUFFIXES = (INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)


class SourceUnreadable(DiskFailed):
    """The disk of the source replica failed, not that of the future replica."""


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (FileLost, TooManyFiles):
        raise
    except DiskFailed as failure:
        raise SourceUnreadable(str(failure)) from failure


class CopyRange(NamedTuple):
    """A byte range of one segment's log, and the offset that the future replica reaches with it."""

    base_offset: int
    position: int
    size: int
    end_offset: int


class MoveNames(NamedTuple):
    """The names of one move."""

    source_id: str
    target_id: str
    token: str
    retired: str  # the later name of the source replica


class ChosenReplica(Enum):
    """The replica that a start would choose."""

    ORIGINAL = "original"
    COPY = "copy"
    UNKNOWN = "unknown"  # appends to neither are safe


class CutoverResult(NamedTuple):
    """The result of the cutover."""

    counts: ChosenReplica
    active: File | None = None  # the active segment of the future replica, if that counts
    failures: tuple[tuple[Disk, DiskFailed], ...] = ()
    copy_stays: bool = False  # perhaps a copy without effect remains under the partition's name


class FutureLog:
    """One log on its way from `source` to the directory `name` of `target`."""

    def __init__(self, log: "Log", target: Disk, name: str) -> None:
        self._log = log
        self._source = log.disk
        self._target = target
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Restart the copy from nothing; `start_over` drops the files."""
        self.end_offset = self._log.start_offset  # the end of the future replica
        self.copied_bytes = 0
        self._sizes: dict[int, int] = {}  # copied bytes per segment
        # Files of the future replica that are written to, or not synced as a whole yet.
        self._files: dict[int, File] = {}
        self._small: set[str] = set()  # copied small files of closed segments
        self._whole: set[int] = set()  # closed segments with all their files, synced
        self._ready: list[ClosedSegment] = []  # to be completed
        self._gone: list[int] = []  # deleted from the source replica, still in the future one
        self._arrivals: list[FutureMark] = []
        self._closed: list[ClosedSegment] | None = None
        self._look_again()

    # -- on the loop

    def _look_again(self) -> None:
        """Restart the counters when the log replaced its list of closed segments. Rolls append to
        the same list, deletions make a new one, so no segment is visited twice for nothing."""
        closed = self._log.closed
        if closed is self._closed:
            return
        self._closed = closed
        self._done = 0  # closed segments, from the oldest on, whose logs are copied
        self._done_whole = 0  # of those, the complete ones
        self._counted = 0  # closed segments in `_counted_bytes`
        self._counted_bytes = 0
        first = self._first_base
        for base in [each for each in self._sizes if each < first]:
            self.copied_bytes -= self._sizes.pop(base)
            self._gone.append(base)
        self.end_offset = max(self.end_offset, self._log.start_offset)

    @property
    def _first_base(self) -> int:
        closed = self._log.closed
        return closed[0].base_offset if closed else self._log.active.base_offset

    def next_piece(self) -> CopyRange | None:
        """Return the next range to copy; None if nothing is missing now."""
        self._look_again()
        log = self._log
        closed = log.closed
        while self._done < len(closed) and self._is_copied(closed[self._done]):
            self._done += 1
        self._look_for_ready()
        if self._done < len(closed):
            segment = closed[self._done]
            have = self._sizes.get(segment.base_offset, 0)
            size = min(PIECE_BYTES, segment.size - have)
            reached = segment.end_offset if have + size == segment.size else self.end_offset
            return CopyRange(segment.base_offset, have, size, reached)
        base, have = log.active.base_offset, self._sizes.get(log.active.base_offset, 0)
        size = min(PIECE_BYTES, log.active.size - have)
        if size == 0:
            return None
        reached = log.end_offset if have + size == log.active.size else self.end_offset
        return CopyRange(base, have, size, reached)

    def _is_copied(self, segment: "ClosedSegment") -> bool:
        return self._sizes.get(segment.base_offset) == segment.size

    def _look_for_ready(self) -> None:
        """Collect segments whose log is copied and whose small files are written."""
        closed = self._log.closed
        while self._done_whole < self._done:
            if closed[self._done_whole].base_offset not in self._whole:
                break
            self._done_whole += 1
        waiting = closed[self._done_whole : self._done]
        self._ready = [
            each for each in waiting if each.memory is None and each.base_offset not in self._whole
        ]

    @property
    def settled(self) -> bool:
        """Return whether nothing is missing and the log has no pending writes. A full disk may
        stall such writes, and bytes in memory cannot be copied."""
        if self.next_piece() is not None or self._log.busy:
            return False
        return all(each.memory is None for each in self._log.closed[self._done_whole :])

    @property
    def missing_bytes(self) -> int:
        self._look_again()
        closed = self._log.closed
        while self._counted < len(closed):
            self._counted_bytes += closed[self._counted].size
            self._counted += 1
        return self._counted_bytes + self._log.active.size - self.copied_bytes

    def copied(self, piece: CopyRange) -> None:
        """Note that `copy` has finished a piece."""
        if not self.still_wants(piece):
            self._gone.append(piece.base_offset)
            return
        self._sizes[piece.base_offset] = piece.position + piece.size
        self.copied_bytes += piece.size
        self.end_offset = max(self.end_offset, piece.end_offset)

    def still_wants(self, piece: CopyRange) -> bool:
        """Return whether the log still has the piece's segment."""
        self._look_again()
        return piece.base_offset >= self._first_base

    # -- on a worker, one call at a time

    def begin(self) -> None:
        """Make the move durable. Raise FileLost if another file has the name."""
        self._clear_the_way()
        self._target.make_directory(self.name)
        with _reading():
            metadata = read_whole(self._source, f"{self._log.directory}/{METADATA_FILE}")
            if metadata is not None:
                # Before the source replica gets a mark: a start must know its topic.
                self._source.open(f"{self._log.directory}/{METADATA_FILE}").sync_now()
        self._target.replace_now(f"{self.name}/{METADATA_FILE}", metadata or b"")

    def _clear_the_way(self) -> None:
        """Remove a copy without effect that a cancelled cutover left under the partition's name."""
        live = self._log.directory
        if not self._target.exists(live):
            return
        arrivals = read_future_marks(self._target, live)
        if not arrivals or any(each.decided for each in arrivals):
            raise FileLost(f"{self._target.root}/{live} is in the way")
        self._target.remove_now(live)

    def start_over(self) -> None:
        """Remove the copied files; the directory stays as the sign of the move."""
        if self._target.exists(self.name):
            for name in self._target.list(self.name):
                if name != METADATA_FILE:
                    self._target.remove_now(f"{self.name}/{name}")
        with suppress(DiskFull):
            self.begin()

    def copy(self, piece: CopyRange) -> None:
        self._tidy()
        base = piece.base_offset
        path = segment_file(self._log.directory, base, LOG)
        with _reading():
            try:
                source = self._source.open(path)
            except FileNotFoundError:
                raise FileLost(f"{self._source.root}/{path} is gone") from None
            data = source.read_now(piece.position, piece.size)
        if len(data) < piece.size:
            raise FileLost(f"{self._source.root}/{path} is shorter than it was")
        target = self._file(base)
        if target.size != piece.position:
            target.truncate_now(piece.position)  # a failure may have left half a piece
        target.append([data])

    def _file(self, base: int) -> File:
        file = self._files.get(base)
        if file is None:
            file = self._target.open(segment_file(self.name, base, LOG), create=True)
            self._files[base] = file
        return file

    def sync(self) -> None:
        """Sync the copied bytes, to keep the cutover short."""
        self._tidy()
        for file in self._files.values():
            file.sync_now()

    def _tidy(self) -> None:
        while self._gone:
            base = self._gone.pop()
            self._files.pop(base, None)
            self._whole.discard(base)
            for suffix in SEGMENT_SUFFIXES:
                self._target.remove_now(segment_file(self.name, base, suffix))
        while self._ready:
            segment = self._ready[-1]
            self._file(segment.base_offset).sync_now()
            names = [f"{segment.base_offset:020d}{suffix}" for suffix in _SMALL_SUFFIXES]
            for name in (*names, f"{segment.end_offset:020d}{SNAPSHOT}"):
                if name not in self._small and self._put(name):
                    self._small.add(name)
            del self._files[segment.base_offset]
            self._whole.add(segment.base_offset)
            self._ready.pop()

    def _put(self, name: str) -> bool:
        """Copy a small file; return False if there is none."""
        with _reading():
            data = read_whole(self._source, f"{self._log.directory}/{name}")
        if data is None:
            return False
        path = f"{self.name}/{name}"
        self._target.put_now(path, data)
        file = self._target.open(path)
        file.sync_now()
        file.close()
        return True

    def discard(self) -> None:
        self._files.clear()
        self._target.remove_now(self.name)

    # -- the cutover, on a worker: appends are paused

    def prepare(self, crossing: MoveNames, start_offset: int) -> None:
        """Copy and sync the rest. The future replica does not count yet."""
        self._tidy()
        self._file(self._log.active.base_offset)
        for file in self._files.values():
            file.sync_now()
        self._copy_small_files()
        own = FutureMark(crossing.source_id, crossing.token, start_offset, decided=False)
        with _reading():
            before = read_future_marks(self._source, self._log.directory)
        self._arrivals = [own, *(each for each in before if each.decided)]
        write_future_marks(self._target, self.name, self._arrivals)

    def _copy_small_files(self) -> None:
        first = self._first_base
        there: set[str] = set()
        with _reading():
            names = self._source.list(self._log.directory)
        for name in names:
            parsed = parse_segment_file(name)
            of_segment = parsed and parsed[1] in _SMALL_SUFFIXES and parsed[0] >= first
            if name in _SMALL_FILES or of_segment:
                there.add(name)
                if name not in self._small:
                    self._put(name)
        for name in self._target.list(self.name):
            parsed = parse_segment_file(name)
            if parsed and parsed[1] in _SMALL_SUFFIXES and name not in there:
                self._target.remove_now(f"{self.name}/{name}")

    def take_over(self, crossing: MoveNames) -> CutoverResult:
        """Give the future replica the partition's name, after `prepare`; from here on it counts, by
        the source replica's mark. Failed steps are undone where that can be made durable."""
        live = self._log.directory
        try:
            departure = SourceMark(crossing.target_id, crossing.token)
            write_source_mark(self._source, live, departure)
        except DiskFailed as failure:
            return self._undo((self._source, failure))
        try:
            self._target.rename_now(self.name, live)
            active = self._open_active()
        except DiskFailed as failure:
            return self._undo((self._target, failure))
        own, *others = self._arrivals
        try:
            write_future_marks(self._target, live, [own._replace(decided=True), *others])
        except DiskFailed as failure:
            return self._call_back(failure)
        self._files.clear()
        return CutoverResult(ChosenReplica.COPY, active)

    def _open_active(self) -> File:
        path = segment_file(self._log.directory, self._log.active.base_offset, LOG)
        try:
            return self._target.open(path)
        except FileNotFoundError:
            raise FileLost(f"{self._target.root}/{path} is gone") from None

    def _call_back(self, failure: DiskFailed) -> CutoverResult:
        """Undo a failed `decided` mark, which may be on disk: only without its name the copy surely
        does not count."""
        try:
            self._target.rename_now(self._log.directory, self.name)
        except DiskFailed:
            return CutoverResult(ChosenReplica.UNKNOWN, failures=((self._target, failure),))
        return self._undo((self._target, failure))

    def _undo(self, first: tuple[Disk, DiskFailed]) -> CutoverResult:
        """Remove the source replica's mark: without it the copy does not count under any name."""
        live = self._log.directory
        try:
            clear_source_mark(self._source, live)
        except DiskFailed as failure:
            return CutoverResult(ChosenReplica.UNKNOWN, failures=(first, (self._source, failure)))
        try:
            if self._target.exists(live):
                self._target.rename_now(live, self.name)
        except DiskFailed:  # the next move or start removes it
            return CutoverResult(ChosenReplica.ORIGINAL, failures=(first,), copy_stays=True)
        return CutoverResult(ChosenReplica.ORIGINAL, failures=(first,))


def switch_disk(
    log: "Log",
    disk: Disk,
    files: FileCache,
    active: File,
    failed: Callable[[DiskFailed], None] | None,
) -> None:
    """Switch the log to this disk, under the same name; all bytes are durable there."""
    assert active.size == log.active.size, "the copy is complete"
    log.files.drop_within(log.directory)
    files.drop_within(log.directory)
    log.disown()
    log.disk = disk
    log.files = files
    log.active.file = active
    log.chores = Chores(disk, failed)
    log.removals = Chores(disk, failed)
    log.all_is_synced()
