"""Replaces segments by compacted ones: readers see the old ones or the new one, never a mixture.

The files are renamed off the loop, one at a time, each name durable before the next:

  1. `.cleaned` becomes `.swap`, the log last: from here on a restart finishes the swap;
  2. between two turns the segments in memory are exchanged, and the new files are read as `.swap`;
  3. the old files become `.deleted`, the oldest segment first: a newer one holds the deletions
     of keys that an older one might show again;
  4. `.swap` goes, the log first, so that its indexes need not be rebuilt after a crash.

swap_recovery.py finishes or undoes an interrupted swap; Apache Kafka's rules do the same.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.log.compaction.order import SegmentGroup
from penstock.log.directory import (
    CLEANED,
    DELETED,
    HOLES_FILE,
    INDEX,
    LOG,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_file,
    segment_file,
)
from penstock.log.holes import ANYWHERE
from penstock.log.segment import ClosedSegment
from penstock.world import DiskFailed, Done, FileLost

if TYPE_CHECKING:
    from penstock.log.log import Log

# Receives the files to remove after file.delete.delay.ms, or the failure.
Swapped = Callable[[list[str], DiskFailed | None], None]


def is_current(log: "Log", old: Sequence[ClosedSegment]) -> bool:
    """Return whether these segments are still a run of the log, untouched by truncation and
    retention."""
    if not old:
        return False
    first = next((n for n, each in enumerate(log.closed) if each is old[0]), -1)
    run = log.closed[first : first + len(old)] if first >= 0 else []
    return len(run) == len(old) and all(a is b for a, b in zip(run, old, strict=True))


def swap(log: "Log", group: SegmentGroup, old: Sequence[ClosedSegment], done: Swapped) -> None:
    """Replace `old`, which must be current, by the segment of `group`. Until `done` neither
    retention nor truncation may run."""
    assert not log.swapping, "one run of segments is exchanged at a time"
    assert is_current(log, old), "segments that are gone are not replaced"
    Swap(log, group, list(old), done).begin()


class Swap:
    """One exchange of a run of segments for its replacement."""

    def __init__(
        self, log: "Log", group: SegmentGroup, old: list[ClosedSegment], done: Swapped
    ) -> None:
        self._log = log
        self._group = group
        self._old = old
        self._done = done
        self._steps = log.removals
        self._lost: DiskFailed | None = None
        self._paths: list[str] = []  # the old files, under their current names
        self._suffixes = [LOG, INDEX, TIME_INDEX]
        if group.has_aborted:
            self._suffixes.append(TXN_INDEX)

    def begin(self) -> None:
        self._log.swapping = True
        self._steps.when_failed(self._gave_up)
        if not self._log.holes.anywhere:
            self._steps.add(self._mark_holes)
        self._steps.add(self._clear_the_way)
        for suffix in reversed(self._suffixes):
            path = self._path(suffix)
            self._rename(path + CLEANED, path + SWAP)
        self._steps.then(self._exchange)

    def _path(self, suffix: str) -> str:
        return segment_file(self._log.directory, self._group.base_offset, suffix)

    def _mark_holes(self, done: Done) -> None:
        """Mark the log before the first swap: a start after a kill takes an unmarked hole for
        missing segments, once the topic is no longer compacted."""
        log = self._log

        def marked(failure: DiskFailed | None) -> None:
            if failure is None:
                log.holes = ANYWHERE
            done(self._unless_lost(failure))

        log.disk.replace(f"{log.directory}/{HOLES_FILE}", ANYWHERE.to_bytes(), marked)

    def _clear_the_way(self, done: Done) -> None:
        """Remove older `.cleaned` files: a restart would take our `.swap` for an incomplete split
        and drop it (KAFKA-6264)."""
        disk, directory, base = self._log.disk, self._log.directory, self._group.base_offset
        ours = {f"{base:020d}{suffix}{CLEANED}" for suffix in self._suffixes}

        def clear() -> None:
            names = disk.list(directory)
            for name in names:
                parsed = parse_segment_file(name)
                stale = parsed and name.endswith(CLEANED) and parsed[0] <= base
                if stale and name not in ours:
                    disk.remove_now(f"{directory}/{name}")
            # Of an unfinished swap. The log last: while it exists, a restart joins the indexes to
            # no other.
            swaps = [name for name in names if name.endswith(SWAP)]
            for name in sorted(swaps, key=lambda each: each.endswith(LOG + SWAP)):
                disk.remove_now(f"{directory}/{name}")

        disk.offload_all([clear], lambda failure: done(self._unless_lost(failure)))

    def _rename(self, source: str, target: str) -> None:
        disk = self._log.disk

        def step(done: Done) -> None:
            if self._lost is not None:
                done(None)
            else:
                disk.rename(source, target, lambda failure: done(self._unless_lost(failure)))

        self._steps.add(step)

    def _unless_lost(self, failure: DiskFailed | None) -> DiskFailed | None:
        """Treat a renamed directory as the end of the swap, not as a disk failure: its topic was
        deleted."""
        if isinstance(failure, FileLost):
            self._lost = self._lost or failure
            return None
        return failure

    def _exchange(self) -> None:
        """Exchange the segments between two turns: from here on readers find the new one."""
        log, group = self._log, self._group
        try:
            if self._lost is not None:
                raise self._lost
            for suffix in self._suffixes:
                path = self._path(suffix)
                try:
                    log.files.pin(path, log.disk.open(path + SWAP))
                except FileNotFoundError:
                    raise FileLost(f"{log.disk.root}/{path}{SWAP} is gone") from None
        except DiskFailed as failure:
            self._end([], failure)
            return
        place = next(n for n, each in enumerate(log.closed) if each is self._old[0])
        new = ClosedSegment.after_compaction(log.directory, group)
        after = log.closed[place + len(self._old) :]
        log.adopt([*log.closed[:place], new, *after])
        inner = {each.base_offset for each in self._old[1:]}
        log.snapshots = [offset for offset in log.snapshots if offset not in inner]
        self._steps.add(self._retire)
        for suffix in self._suffixes:
            self._rename(self._path(suffix) + SWAP, self._path(suffix))
        self._steps.then(lambda: self._end(self._paths, self._lost))

    def _retire(self, done: Done) -> None:
        """Rename all old files, one after the other. A run may have thousands, so each step is
        created only when due."""
        disk, sources = self._log.disk, self._old_files()

        def renamed(failure: DiskFailed | None) -> None:
            if failure is not None and not isinstance(failure, FileLost):
                done(failure)
                return
            for source in sources:
                if self._lost is None and disk.exists(source):
                    self._paths.append(source + DELETED)
                    disk.rename(source, source + DELETED, renamed)
                    return
            done(None)

        renamed(None)

    def _old_files(self) -> Iterator[str]:
        for segment in self._old:
            for suffix in (LOG, INDEX, TIME_INDEX, TXN_INDEX):
                path = segment.path(suffix)
                self._log.files.drop(path)
                yield path
            # the first snapshot describes the segments before the run
            if segment is not self._old[0]:
                yield segment.path(SNAPSHOT)

    def _gave_up(self, failure: DiskFailed) -> None:
        """End the swap after a final failure: the directory goes offline, and the log with it."""
        self._end([], failure)

    def _end(self, paths: list[str], failure: DiskFailed | None) -> None:
        log = self._log
        if not log.swapping:
            return
        for suffix in self._suffixes:
            log.files.unpin(self._path(suffix))
        log.swapping = False
        self._steps.when_failed(None)
        self._done(paths, failure)
