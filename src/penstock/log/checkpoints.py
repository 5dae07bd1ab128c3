"""Kafka's checkpoint files: a version, a count, then one entry per line.

Reading is tolerant, because a kill can leave an empty file or half a file. A damaged file counts as
missing; the caller gets the complaint and logs it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.model import TopicPartition
from penstock.world import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
_VERSION = "0"


class OffsetCheckpoint(NamedTuple):
    """Offsets per partition, and the complaint about their file."""

    offsets: dict[TopicPartition, int]
    complaint: str | None


class EpochCheckpoint(NamedTuple):
    """(leader epoch, start offset) pairs, and the complaint about their file."""

    entries: list[tuple[int, int]]
    complaint: str | None


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _format(f"{topic} {number} {at}" for (topic, number), at in offsets.items())


def parse_offsets(data: bytes) -> OffsetCheckpoint:
    lines, complaint = _entry_lines(data)
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        fields = line.split()
        try:
            topic, number, offset = fields
            offsets[TopicPartition(topic, int(number))] = int(offset)
        except ValueError:
            return OffsetCheckpoint({}, f"no 'topic partition offset': {line!r}")
    return OffsetCheckpoint(offsets, complaint)


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _format(f"{epoch} {offset}" for epoch, offset in entries)


def parse_epochs(data: bytes) -> EpochCheckpoint:
    lines, complaint = _entry_lines(data)
    entries: list[tuple[int, int]] = []
    for line in lines:
        try:
            epoch, offset = line.split()
            entries.append((int(epoch), int(offset)))
        except ValueError:
            return EpochCheckpoint([], f"no 'epoch offset': {line!r}")
    return EpochCheckpoint(entries, complaint)


def read_offsets(disk: Disk, path: str) -> OffsetCheckpoint:
    """Return the offsets of a checkpoint; no offsets and no complaint if the file is missing."""
    data = read_whole(disk, path)
    return OffsetCheckpoint({}, None) if data is None else parse_offsets(data)


def read_epochs(disk: Disk, path: str) -> EpochCheckpoint:
    data = read_whole(disk, path)
    return EpochCheckpoint([], None) if data is None else parse_epochs(data)


def read_whole(disk: Disk, path: str) -> bytes | None:
    """Return the bytes of a small file, or None if the file is missing. Waits for the disk."""
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    data = file.read_now(0, file.size)
    file.close()
    return data


def _format(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, str(len(entries)), *entries)).encode()


def _entry_lines(data: bytes) -> tuple[list[str], str | None]:
    if not data:
        return [], "the file is empty"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [], "the file is not text"
    lines = text.splitlines()
    if lines[0] != _VERSION:
        return [], f"unknown version {lines[0]!r}"
    # A last line without its end may be half of a number.
    if len(lines) < 2 or not text.endswith("\n") or lines[1] != str(len(lines) - 2):
        return [], "the file is cut short"
    return lines[2:], None
