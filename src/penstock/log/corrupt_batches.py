"""Batches that were durable and no longer match their checksum: kept, and not served.

Recovery finds them. The next start after a clean stop scans nothing, so a file beside the log lists
them. A repaired batch leaves the list at the next start.
"""

from collections.abc import Iterable
from typing import NamedTuple

from penstock.log.checkpoints import read_whole
from penstock.log.directory import DAMAGE_FILE, LOG, segment_file
from penstock.wire.batch import (
    BASE_OFFSET,
    HEADER,
    HEADER_BYTES,
    LENGTH,
    LENGTH_MIN,
    LENGTH_OVERHEAD,
    Header,
    checksum_holds,
)
from penstock.world import Disk

_VERSION = "0"


class Damaged(NamedTuple):
    """One batch: its first offset, its position, and its segment."""

    offset: int
    position: int
    segment_base: int


def read_damaged(disk: Disk, directory: str) -> list[Damaged]:
    """Return the listed batches that are still damaged."""
    version, *lines = (read_whole(disk, f"{directory}/{DAMAGE_FILE}") or b"").decode().split("\n")
    if version != _VERSION:
        return []
    noted = (Damaged(*map(int, line.split())) for line in lines if line)
    return [each for each in noted if _is_damaged(disk, directory, each)]


def format_damaged(damaged: Iterable[Damaged]) -> bytes:
    lines = [_VERSION, *(" ".join(map(str, each)) for each in damaged), ""]
    return "\n".join(lines).encode()


def _is_damaged(disk: Disk, directory: str, noted: Damaged) -> bool:
    try:
        file = disk.open(segment_file(directory, noted.segment_base, LOG))
    except FileNotFoundError:
        return False  # retention removed the segment
    data = file.read_now(noted.position, HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        return False
    header: Header = HEADER.unpack(data)
    if header[BASE_OFFSET] != noted.offset or header[LENGTH] < LENGTH_MIN:
        return False
    batch = file.read_now(noted.position, header[LENGTH] + LENGTH_OVERHEAD)
    return not checksum_holds(memoryview(batch), header)
