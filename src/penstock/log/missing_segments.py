"""Finds segments that are missing or cut at a start.

A clean stop leaves the sizes of all segments. After another stop two things tell of missing
records: an index, which no deletion leaves without its log, and offsets that are missing before
later ones. Compaction leaves such holes too: holes.py has those on record. Waits for the disk; for
start only.
"""

import zlib
from collections.abc import Collection, Mapping
from struct import Struct

from penstock.log.directory import INDEX, LOG, parse_segment_file, segment_file
from penstock.log.index import OFFSET_ENTRY
from penstock.log.opening import Opening
from penstock.log.segment import scan_batches
from penstock.wire.batch import BASE_OFFSET, LAST_OFFSET_DELTA
from penstock.world import Disk, DiskFailed, File, FileLost

# The head of a message before record batches: offset, length, checksum, magic.
_OLD_MESSAGE = Struct(">qiIb")
_OLD_LENGTH_OVERHEAD = 12


class LogCorrupted(DiskFailed):
    """Durable bytes are broken or missing, and the following batches cannot be found."""


def check_indexes(disk: Disk, directory: str, names: Collection[str], start_offset: int) -> None:
    """Raise LogCorrupted if an index has no log file. Indexes below `start_offset` are left over
    from retention and pass."""
    there = set(names)
    for name in names:
        parsed = parse_segment_file(name)
        if parsed and parsed[1] == INDEX and parsed[0] >= start_offset:
            missing = segment_file(directory, parsed[0], LOG)
            if f"{name.removesuffix(INDEX)}{LOG}" not in there:
                raise LogCorrupted(
                    f"{disk.root}/{missing} is missing, and its index is there. Restore it from a "
                    "copy"
                )


def check_segments(
    disk: Disk,
    directory: str,
    names: Collection[str],
    sizes: Mapping[int, int],
    durable_to: int,
) -> None:
    """Raise LogCorrupted unless each segment has the size of the clean stop, where `sizes` tells
    that; and for a directory that lost all its segments. A new log gets its first segment before
    any other file, so an empty directory whose checkpoints tell of no records is a new log."""
    for base, size in sizes.items():
        where = f"{disk.root}/{segment_file(directory, base, LOG)}"
        try:
            found = disk.size(segment_file(directory, base, LOG))
        except FileLost:
            raise LogCorrupted(f"{where} is missing. Restore it from a copy") from None
        if found != size:
            repair = f", or cut it to {size} bytes" if found > size else ""
            raise LogCorrupted(
                f"{where} has {found} bytes, and had {size} when it was closed. Restore it from a "
                f"copy{repair}"
            )
    if (names or durable_to > 0) and not any(name.endswith(LOG) for name in names):
        durable = f", and offsets below {durable_to} were durable" if durable_to > 0 else ""
        raise LogCorrupted(
            f"{disk.root}/{directory} holds no segment any more{durable}. Restore its {LOG} files "
            "from a copy"
        )


def check_reach(opening: Opening, end_offset: int, recovery_point: int) -> None:
    """Raise LogCorrupted for a log that ends before its recovery point."""
    if end_offset < recovery_point:
        raise LogCorrupted(
            f"{opening.disk.root}/{opening.directory} ends at offset {end_offset}, and offsets "
            f"below {recovery_point} were durable. Restore its newest segment from a copy"
        )


def check_end(opening: Opening, number: int) -> None:
    """Raise LogCorrupted if a closed segment with indexes was cut, or if the next one is missing.
    Reads the batches behind the last index entry."""
    base = opening.bases[number]
    file = opening.disk.open(opening.path(base, LOG))
    position, end_offset = _last_indexed(opening, base), base
    for at, header, batch in scan_batches(file, position):
        end_offset = header[BASE_OFFSET] + header[LAST_OFFSET_DELTA] + 1
        position = at + len(batch)
    if position < file.size and not opening.salvage:
        check_format(opening, file, position)
        raise LogCorrupted(
            f"{opening.disk.root}/{file.path}: no batch at byte {position}. Restore the file from a"
            " copy"
        )
    check_hole(opening, end_offset, opening.end_of(number))


def check_format(opening: Opening, file: File, position: int) -> None:
    """Raise LogCorrupted if a message in format 0 or 1 is at `position`: no kill leaves that."""
    if file.size - position < _OLD_MESSAGE.size:
        return
    _offset, length, checksum, magic = _OLD_MESSAGE.unpack(
        file.read_now(position, _OLD_MESSAGE.size)
    )
    end = position + _OLD_LENGTH_OVERHEAD + length
    summed = position + _OLD_MESSAGE.size - 1  # the checksum covers bytes from the magic on
    if magic not in (0, 1) or not summed < end <= file.size:
        return
    if zlib.crc32(file.read_now(summed, end - summed)) == checksum:
        raise LogCorrupted(
            f"{opening.disk.root}/{file.path}: the records at byte {position} are in message format"
            f" {magic}, and Penstock reads format 2. Nothing was changed. Start Apache Kafka with"
            " this directory, copy the topic to a new one, and delete the old one"
        )


def check_hole(opening: Opening, end_offset: int, next_offset: int) -> None:
    """Raise LogCorrupted if offsets before the next batch, or the next durable segment, are
    missing. A kill and a loss of power take the end of a log, never offsets before it."""
    if end_offset < next_offset and not opening.may_lack(end_offset, next_offset):
        raise LogCorrupted(
            f"{opening.disk.root}/{opening.directory} has no records between offsets {end_offset} "
            f"and {next_offset}, and has later ones: files were cut or removed from outside. "
            f"Restore its {LOG} files from a copy"
        )


def _last_indexed(opening: Opening, base: int) -> int:
    """Return the position of the last indexed batch."""
    index = opening.disk.open(opening.path(base, INDEX))
    if index.size < OFFSET_ENTRY.size:
        return 0
    entry = index.read_now(index.size - OFFSET_ENTRY.size, OFFSET_ENTRY.size)
    return int(OFFSET_ENTRY.unpack(entry)[1])
