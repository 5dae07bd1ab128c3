"""Offset and time indexes as kafka-dump-log prints them, checked against their segment."""

import struct
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli.kafka.framework.runner import CommandRejected, say
from penstock.cli.log.stored_files import base_offset, map_file, read_batches, read_index
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY
from penstock.wire.batch import MAX_TIMESTAMP
from penstock.wire.primitives import Malformed


class IndexedBatch(NamedTuple):
    """The fields of a batch that index entries repeat."""

    position: int
    last_offset: int
    max_timestamp: int


def dump_index(path: Path, *, sane_only: bool, silent: bool) -> None:
    base = _base_offset(path)
    entries = read_index(path, OFFSET_ENTRY)
    if not entries:
        print(f"{path} is empty.")
        return
    if sane_only:
        _check(path, OFFSET_ENTRY, entries[-1][0])
        return
    batches = {batch.position: batch for batch in _batches(path)}
    wrong: list[str] = []
    for relative, position in entries:
        found = batches.get(position)
        last = -1 if found is None else found.last_offset
        if last != base + relative:
            wrong.append(f"  Index offset: {base + relative}, log offset: {last}")
        if not silent:
            print(f"offset: {base + relative} position: {position}")
    if wrong:
        say("\n".join([f"Mismatches in :{path.absolute()}", *wrong]))


def dump_time_index(path: Path, *, sane_only: bool, silent: bool) -> None:
    base = _base_offset(path)
    entries = read_index(path, TIME_ENTRY)
    if sane_only:
        _check(path, TIME_ENTRY, entries[-1][1] if entries else 0)
        return
    batches = _batches(path)
    before = -1
    for timestamp, relative in entries:
        offset = base + relative
        _compare(path, timestamp, offset, before, batches)
        if not silent:
            print(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def _compare(
    path: Path, timestamp: int, offset: int, before: int, batches: Sequence[IndexedBatch]
) -> None:
    at = bisect_left(batches, offset, key=lambda each: each.last_offset)
    found = batches[at].last_offset if at < len(batches) else -1
    if found != offset:
        say("The following indexed offsets are not found in the log.")
        say(f"Indexed offset: {offset}, found log offset: {found}")
        return
    if batches[at].max_timestamp != timestamp:
        say(f"Found timestamp mismatch in :{path.absolute()}")
        say(f"  Index timestamp: {timestamp}, log timestamp: {batches[at].max_timestamp}")
    if before >= timestamp:
        say(f"Found out of order timestamp in :{path.absolute()}")
        say(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {before}")


def _check(path: Path, entry: struct.Struct, last: int) -> None:
    """Check an index as the start of a node does."""
    size = path.stat().st_size
    if size % entry.size or last < 0:
        raise CommandRejected(
            f"Index file {path} is corrupt: {size} bytes are no whole entries of {entry.size}"
        )
    print(f"{path} passed sanity check.")


def _base_offset(path: Path) -> int:
    base = base_offset(path)
    if base is None:
        raise CommandRejected(f"{path}: the name of an index is the offset that it begins at")
    return base


def _batches(path: Path) -> list[IndexedBatch]:
    """Return the batches of the segment beside an index."""
    log = path.with_suffix(".log")
    found: list[IndexedBatch] = []
    try:
        with map_file(log) as view:
            for batch in read_batches(view):
                timestamp = batch.header[MAX_TIMESTAMP]
                found.append(IndexedBatch(batch.position, batch.last_offset, timestamp))
    except FileNotFoundError:
        raise CommandRejected(
            f"{log}: an index is read with its segment, and there is none"
        ) from None
    except Malformed as problem:
        say(f"{log}: {problem}")
    return found
