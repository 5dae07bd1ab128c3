"""Finishes or undoes swaps that a stop interrupted, by Apache Kafka's rules.

Files that end in `.deleted` go, with indexes that were not renamed yet. Files that end in
`.cleaned` were never part of the log and go; so does a `.swap` at or above the lowest of them,
which is incomplete (KAFKA-6264). A log that ends in `.swap` is complete and replaces the segments
that begin inside it. Segments behind its last batch stay, as in Kafka: newer records supersede
their contents, and the cleaner's checkpoint predates the swap, so they are cleaned again. Every
step can be repeated. Waits for the disk; for start only.
"""

from penstock.log.directory import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    parse_segment_file,
)
from penstock.log.log import LogRecovery
from penstock.log.segment import scan_batches
from penstock.wire.batch import BASE_OFFSET, LAST_OFFSET_DELTA
from penstock.world import Disk

_OF_A_SEGMENT = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


def has_leftovers(names: list[str]) -> bool:
    return any(name.endswith((DELETED, CLEANED, SWAP, ".tmp")) for name in names)


def clear_leftovers(
    disk: Disk, directory: str, names: list[str], recovery: LogRecovery
) -> set[int]:
    """Finish or undo interrupted swaps; return the base offsets of replaced segments."""
    _remove_indexes_of_deleted(disk, directory, names)
    for name in names:
        if name.endswith((DELETED, ".tmp")):
            disk.remove_now(f"{directory}/{name}")
    cleaned = [name for name in names if name.endswith(CLEANED)]
    lowest = min((_base(name) for name in cleaned), default=2**63)
    swaps = [name for name in names if name.endswith(SWAP)]
    for name in swaps:
        if _base(name) >= lowest:
            disk.remove_now(f"{directory}/{name}")
    # Last: while one of them exists, the `.swap` files count as incomplete.
    for name in cleaned:
        disk.remove_now(f"{directory}/{name}")
    replaced: set[int] = set()
    for name in swaps:
        if _base(name) < lowest and name.endswith(LOG + SWAP):
            replaced |= _remove_replaced(disk, directory, name)
            recovery.complaints.append(f"finished the compaction of segment {name[:20]}")
    # The log first, as in the swap itself: a start then knows which indexes follow.
    for name in sorted(swaps, key=lambda each: not each.endswith(LOG + SWAP)):
        if _base(name) < lowest:
            disk.rename_now(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    return replaced


def _remove_indexes_of_deleted(disk: Disk, directory: str, names: list[str]) -> None:
    """Remove indexes whose logs retention had renamed already. The renamed logs go afterwards:
    without them, such an index seems to have lost its log."""
    there = set(names)
    for name in names:
        log_name = name.removesuffix(DELETED)
        index = f"{log_name.removesuffix(LOG)}{INDEX}"
        if name.endswith(LOG + DELETED) and log_name not in there and index in there:
            disk.remove_now(f"{directory}/{index}")


def _base(name: str) -> int:
    parsed = parse_segment_file(name)
    return parsed[0] if parsed else 2**63


def _remove_replaced(disk: Disk, directory: str, swap: str) -> set[int]:
    """Remove the segments that begin inside a compacted one, the oldest first."""
    base = _base(swap)
    end_offset = base + 1  # an empty one replaces at least the segment of its name
    for _, header, _ in scan_batches(disk.open(f"{directory}/{swap}")):
        end_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
    replaced = {base}
    for name in disk.list(directory):
        parsed = parse_segment_file(name)
        if parsed is None or not base <= parsed[0] < end_offset:
            continue
        # The snapshot at its base describes earlier segments and stays valid.
        if parsed[1] in _OF_A_SEGMENT or (parsed[1] == SNAPSHOT and parsed[0] > base):
            disk.remove_now(f"{directory}/{name}")
            replaced.add(parsed[0])
    return replaced
