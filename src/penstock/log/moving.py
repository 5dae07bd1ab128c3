"""Copies a log to another disk while it is written to, and then lets it live there.

Closed segments are copied first, then the tail of the active one, again and again, until little is
missing. The rest needs a moment in which nothing is appended: the last bytes are copied, one
barrier makes all of it durable, the copy gets the partition's name and the original loses it. A
crash between those two renames leaves two directories of one name; a file in the newer one says
where it came from, and so which of them counts.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.log.checkpoints import read_whole
from penstock.log.directory import (
    DAMAGE_FILE,
    EPOCHS_FILE,
    INDEX,
    LOG,
    METADATA_FILE,
    MOVED_FROM_FILE,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    WINDOW_FILE,
    parse_segment_file,
    segment_file,
)
from penstock.log.files import Chores, FileCache
from penstock.world import Disk, DiskFailed, DiskFull, File, FileLost

if TYPE_CHECKING:
    from penstock.log.log import Log
    from penstock.log.segment import ClosedSegment

PIECE_BYTES = 4 * 1024 * 1024
_SMALL_FILES = (EPOCHS_FILE, WINDOW_FILE, DAMAGE_FILE, METADATA_FILE)
_SMALL_SUFFIXES = (INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)


class Piece(NamedTuple):
    """Some bytes of one segment's log, and the offset that the copy reaches with them."""

    base_offset: int
    position: int
    size: int
    end_offset: int


class Copy:
    """One log on its way from `source` to the directory `name` of `target`."""

    def __init__(self, log: "Log", target: Disk, name: str) -> None:
        self._log = log
        self._source = log.disk
        self._target = target
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Nothing is copied; what was is dropped by `start_over`."""
        self.end_offset = self._log.start_offset  # what the copy reaches
        self.copied_bytes = 0
        self._sizes: dict[int, int] = {}  # of the segments' logs in the copy
        self._files: dict[int, File] = {}  # of the copy: the one or two that are being written
        # Meanwhile the log loses no segment and only gains some: none is gone through twice.
        self._done = 0  # of the closed segments, from the oldest on, those that are copied
        self._counted = 0  # of them, those in `_counted_bytes`
        self._counted_bytes = 0

    # -- on the loop

    def next_piece(self) -> Piece | None:
        """What to copy next; None when the copy has all that the log has now."""
        log = self._log
        closed = log.closed
        while self._done < len(closed) and self._is_copied(closed[self._done]):
            self._files.pop(closed[self._done].base_offset, None)
            self._done += 1
        for place in range(self._done, len(closed)):
            segment = closed[place]
            if segment.memory is not None or self._is_copied(segment):
                continue
            have = self._sizes.get(segment.base_offset, 0)
            size = min(PIECE_BYTES, segment.size - have)
            reached = segment.end_offset if have + size == segment.size else self.end_offset
            return Piece(segment.base_offset, have, size, reached)
        base, have = log.active.base_offset, self._sizes.get(log.active.base_offset, 0)
        size = min(PIECE_BYTES, log.active.size - have)
        if size == 0:
            return None
        reached = log.end_offset if have + size == log.active.size else self.end_offset
        return Piece(base, have, size, reached)

    def _is_copied(self, segment: "ClosedSegment") -> bool:
        return segment.memory is None and self._sizes.get(segment.base_offset) == segment.size

    @property
    def missing_bytes(self) -> int:
        closed = self._log.closed
        while self._counted < len(closed):
            self._counted_bytes += closed[self._counted].size
            self._counted += 1
        return self._counted_bytes + self._log.active.size - self.copied_bytes

    def copied(self, piece: Piece) -> None:
        """`copy` has done its work."""
        self._sizes[piece.base_offset] = piece.position + piece.size
        self.copied_bytes += piece.size
        self.end_offset = max(self.end_offset, piece.end_offset)

    # -- on a worker, one call at a time

    def begin(self) -> None:
        self._target.make_directory(self.name)
        metadata = read_whole(self._source, f"{self._log.directory}/{METADATA_FILE}")
        if metadata is not None:
            self._target.put_now(f"{self.name}/{METADATA_FILE}", metadata)

    def start_over(self) -> None:
        """Give back what the copy has taken; its directory stays, as the sign of a wish."""
        self._target.remove_now(self.name)
        with suppress(DiskFull):
            self.begin()

    def copy(self, piece: Piece) -> None:
        base = piece.base_offset
        path = segment_file(self._log.directory, base, LOG)
        try:
            source = self._source.open(path)
        except FileNotFoundError:
            raise FileLost(f"{self._source.root}/{path} is gone") from None
        data = source.read_now(piece.position, piece.size)
        if len(data) < piece.size:
            raise FileLost(f"{self._source.root}/{path} is shorter than it was")
        target = self._files.get(base)
        if target is None:
            target = self._target.open(segment_file(self.name, base, LOG), create=True)
            self._files[base] = target
        if target.size != piece.position:
            target.truncate_now(piece.position)  # after a failure in the middle of a piece
        target.append([data])

    def finish(self, source_id: str, retired: str) -> File:
        """The copy is complete, and nothing is appended: it takes the partition's name, the
        original becomes `retired`. The active segment of the copy. DiskFailed: the original is
        still what counts. OriginalStays: the copy counts, and the original kept its name."""
        live = self._log.directory
        self._copy_small_files()
        self._target.open(segment_file(self.name, self._log.active.base_offset, LOG), create=True)
        self._target.put_now(f"{self.name}/{MOVED_FROM_FILE}", source_id.encode())
        self._target.sync_everything_now()
        self._target.rename_now(self.name, live)
        newest = segment_file(live, self._log.active.base_offset, LOG)
        active = self._target.open(newest)
        try:
            self._source.rename_now(live, retired)
        except DiskFailed as failure:
            raise OriginalStays(active, failure) from failure
        self._target.remove_now(f"{live}/{MOVED_FROM_FILE}")
        return active

    def discard(self) -> None:
        self._files.clear()
        self._target.remove_now(self.name)

    def _copy_small_files(self) -> None:
        directory = self._log.directory
        for name in self._source.list(directory):
            parsed = parse_segment_file(name)
            if name in _SMALL_FILES or (parsed and parsed[1] in _SMALL_SUFFIXES):
                data = read_whole(self._source, f"{directory}/{name}")
                if data is not None:
                    self._target.put_now(f"{self.name}/{name}", data)


class OriginalStays(Exception):
    """The copy has taken over; the disk of the original failed before it could be put away."""

    def __init__(self, active: File, failure: DiskFailed) -> None:
        super().__init__(str(failure))
        self.active = active
        self.failure = failure


def rehome(
    log: "Log",
    disk: Disk,
    files: FileCache,
    active: File,
    failed: Callable[[DiskFailed], None] | None,
) -> None:
    """The log lives on this disk from now on, under the same name, and all of it is durable."""
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
