"""What is asked of a compaction and what it tells: plain values that travel between processes.

A node imports this file when it starts; what does the work (`clean.py` and numpy behind it) is
loaded by whoever runs it, in a process of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.log.transactions import Aborted

# Of the offset map: beyond this share of its places, finding one takes too many looks.
MAP_LOAD_MAX = 0.9
# A key costs the map 16 bytes of hash and 8 of offset.
MAP_BYTES_PER_KEY = 24


class CompactionRefused(Exception):
    """The log holds something that cannot be cleaned; nothing of it was touched. The text says
    what, and where."""


class BrokenBatch(CompactionRefused):
    """What is stored is not what was written: no setting helps, somebody has to see to the file."""


class CompactionStopped(Exception):
    """It was told to stop. Groups that were said before are whole."""


class Segment(NamedTuple):
    """One closed segment, as the log knows it."""

    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: int
    has_aborted: bool


@dataclass(frozen=True, slots=True)
class Order:
    """One cleaning of one log. `directory` is relative to the disk's root."""

    directory: str
    # All closed segments from the log's start up to `upper_offset`, in order.
    segments: tuple[Segment, ...]
    # Records below it are gone already: they need not be kept.
    start_offset: int
    # Where the last cleaning ended.
    first_dirty_offset: int
    # Nothing at or above it is read, nor is a segment that reaches above it.
    upper_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes_max: int
    index_bytes_max: int
    index_interval_bytes: int
    # The largest batch that the topic takes now. Larger ones that are there already are cleaned
    # as well; it bounds only what a compressed batch may grow to.
    message_bytes_max: int
    # Active producer -> last offset of its newest batch: it stays, emptied, for its sequence.
    last_offsets: Mapping[int, int]
    # Active producer of which no batch is known -> its epoch: its last marker stays, for its epoch.
    last_epochs: Mapping[int, int]
    # Aborted transactions that began below `upper_offset` and whose markers lie at or above it: no
    # transaction index of `segments` tells of them, and what is aborted must not hide what is not.
    aborted_later: tuple[Aborted, ...]
    # This cleaner's share of log.cleaner.dedupe.buffer.size.
    map_bytes_max: int
    # Reads and writes together.
    io_bytes_per_second_max: float = float("inf")
    map_load_max: float = MAP_LOAD_MAX
    # So much of the disk stays free, whoever else writes to it: what is written ends before that.
    free_bytes_min: int = 0
    # Keys are hashed with it; where nobody can know it, nobody can make two keys collide.
    hash_seed: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """A run of segments and what takes its place: `<base_offset>.log.cleaned` and its indexes are
    complete and synced. A size of 0 means that nothing of the run is left."""

    # Base offsets of the segments that are replaced.
    old: tuple[int, ...]
    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: int
    # The last offset of the batch that has the largest timestamp.
    largest_offset: int
    has_aborted: bool


class Progress(NamedTuple):
    """How far a cleaning is: bytes read, of those that it will read if the map holds all keys."""

    done_bytes: int
    total_bytes: int
    # "reading keys" or "copying".
    step: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a cleaning came to."""

    groups: int
    # The next `first_dirty_offset`; below `upper_offset` when the map was full before.
    cleaned_to: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    # Records without a key: they have no place in a compacted log and were dropped.
    keyless_dropped: int
    # Batches whose records cannot be read: they are kept as they are.
    flawed_kept: int
    # Share of the map's places that were taken.
    map_used: float
    seconds: float


Say: TypeAlias = Callable[[Group | Progress], None]
Stop: TypeAlias = Callable[[], bool]
