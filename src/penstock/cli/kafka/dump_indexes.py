"""Offset and time indexes as kafka-dump-log prints them, checked against their segment."""

import mmap
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli.kafka.running import CommandRefused, say
from penstock.log.index import OFFSET_ENTRY, TIME_ENTRY
from penstock.wire import batch as wire
from penstock.wire.primitives import Malformed


class Batch(NamedTuple):
    position: int
    last_offset: int
    max_timestamp: int


def dump_index(path: Path, *, sane_only: bool, silent: bool) -> None:
    base = _base_offset(path)
    entries = list(_entries(path, OFFSET_ENTRY))
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
    entries = list(_entries(path, TIME_ENTRY))
    if sane_only:
        _check(path, TIME_ENTRY, entries[-1][1] if entries else 0)
        return
    batches = list(_batches(path))
    before = -1
    for timestamp, relative in entries:
        offset = base + relative
        _compare(path, timestamp, offset, before, batches)
        if not silent:
            print(f"timestamp: {timestamp} offset: {offset}")
        before = timestamp


def _compare(
    path: Path, timestamp: int, offset: int, before: int, batches: Sequence[Batch]
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
    """What a start would ask of an index before it trusts it."""
    size = path.stat().st_size
    if size % entry.size or last < 0:
        raise CommandRefused(
            f"Index file {path} is corrupt: {size} bytes are no whole entries of {entry.size}"
        )
    print(f"{path} passed sanity check.")


def _base_offset(path: Path) -> int:
    stem = path.name.partition(".")[0]
    if not stem.isdecimal():
        raise CommandRefused(f"{path}: the name of an index is the offset that it begins at")
    return int(stem)


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, int]]:
    """All entries; an index that was not closed ends in zeros, which are none."""
    data = path.read_bytes()
    whole = len(data) - len(data) % entry.size
    for at, (first, second) in enumerate(entry.iter_unpack(data[:whole])):
        if not first and not second and (at or not any(data)):
            return
        yield first, second


def _batches(path: Path) -> Iterator[Batch]:
    """Those of the segment beside the index."""
    log = path.with_suffix(".log")
    try:
        if log.stat().st_size == 0:
            return
        with (
            log.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            for position, header in wire.batch_headers(view):
                last = header[wire.BASE_OFFSET] + header[wire.LAST_OFFSET_DELTA]
                yield Batch(position, last, header[wire.MAX_TIMESTAMP])
    except FileNotFoundError:
        raise CommandRefused(
            f"{log}: an index is read with its segment, and there is none"
        ) from None
    except Malformed as problem:
        say(f"{log}: {problem}")
