"""The order and the results of a compaction: plain values that travel between processes.

A node imports this file at its start. A cleaner process loads `clean.py`, and numpy with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from penstock.log.transactions import Aborted

# Share of the map's slots: a fuller map needs too many probes.
MAP_LOAD_MAX = 0.9
# A key costs the map 16 bytes of hash and 8 of offset.
MAP_BYTES_PER_KEY = 24


class CompactionRejected(Exception):
    """The log cannot be cleaned and is unchanged. The text names the cause and the position."""


class BrokenBatch(CompactionRejected):
    """Stored bytes are damaged: no setting helps, an operator has to repair the file."""


class CompactionStopped(Exception):
    """A stop request ended the cleaning. Groups reported before stay valid."""


class Segment(NamedTuple):
    """One closed segment of the log."""

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
    # Records below are deleted already.
    start_offset: int
    # Where the last cleaning ended.
    first_dirty_offset: int
    # Segments that reach above this offset are not read.
    upper_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes_max: int
    index_bytes_max: int
    index_interval_bytes: int
    # The largest batch that the topic accepts now. The limit bounds only the unpacked size of a
    # compressed batch; larger stored batches are cleaned too.
    message_bytes_max: int
    # Active producer -> last offset of its newest batch, which stays, at least as a header.
    last_offsets: Mapping[int, int]
    # Active producer without a known batch -> its epoch, which the last marker keeps.
    last_epochs: Mapping[int, int]
    # Aborted transactions that began below `upper_offset` and whose markers are at or above. The
    # transaction indexes of `segments` lack them; aborted records must not hide committed ones.
    aborted_later: tuple[Aborted, ...]
    # This cleaner's share of log.cleaner.dedupe.buffer.size.
    map_bytes_max: int
    # Reads and writes together.
    io_bytes_per_second_max: float = float("inf")
    map_load_max: float = MAP_LOAD_MAX
    # Free bytes that the cleaning leaves, beside other writers.
    free_bytes_min: int = 0
    # The seed of the key hashes: a secret seed prevents forged collisions.
    hash_seed: int = 0


@dataclass(frozen=True, slots=True)
class SegmentGroup:
    """A run of segments and its replacement: `<base_offset>.log.cleaned` and its indexes are
    complete and synced. Size 0: no record of the run is left."""

    # Base offsets of the replaced segments.
    old: tuple[int, ...]
    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: int
    # The last offset of the batch with the largest timestamp.
    largest_offset: int
    has_aborted: bool


class CleaningProgress(NamedTuple):
    """The bytes read so far, and the total if the map holds all keys."""

    done_bytes: int
    total_bytes: int
    # "reading keys" or "copying".
    step: str


@dataclass(frozen=True, slots=True)
class CleaningReport:
    """The result of a cleaning."""

    groups: int
    # The next `first_dirty_offset`; below `upper_offset` if the map was full earlier.
    cleaned_to: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    # Records without a key: a compacted log has no use for them, so they were dropped.
    keyless_dropped: int
    # Batches with unreadable records, kept as they are.
    flawed_kept: int
    # Share of the map's slots in use.
    map_used: float
    seconds: float


Say: TypeAlias = Callable[[SegmentGroup | CleaningProgress], None]
Stop: TypeAlias = Callable[[], bool]
