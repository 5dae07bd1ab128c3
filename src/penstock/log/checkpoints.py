"""Kafka's checkpoint files: a version, a count, then one entry per line.

Reading is tolerant, as a kill can leave a file of no bytes or half a file: what does not add up
counts as missing, and the complaint is handed to the caller, who logs it.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.model import TopicPartition
from penstock.world import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
_VERSION = "0"


class Offsets(NamedTuple):
    """Offsets per partition, and what was wrong with the file they came from."""

    offsets: dict[TopicPartition, int]
    complaint: str | None


class Epochs(NamedTuple):
    """(leader epoch, start offset) pairs, and what was wrong with their file."""

    entries: list[tuple[int, int]]
    complaint: str | None


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _format(f"{topic} {number} {at}" for (topic, number), at in offsets.items())


def parse_offsets(data: bytes) -> Offsets:
    lines, complaint = _entry_lines(data)
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        fields = line.split()
        try:
            topic, number, offset = fields
            offsets[TopicPartition(topic, int(number))] = int(offset)
        except ValueError:
            return Offsets({}, f"no 'topic partition offset': {line!r}")
    return Offsets(offsets, complaint)


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _format(f"{epoch} {offset}" for epoch, offset in entries)


def parse_epochs(data: bytes) -> Epochs:
    lines, complaint = _entry_lines(data)
    entries: list[tuple[int, int]] = []
    for line in lines:
        try:
            epoch, offset = line.split()
            entries.append((int(epoch), int(offset)))
        except ValueError:
            return Epochs([], f"no 'epoch offset': {line!r}")
    return Epochs(entries, complaint)


def read_offsets(disk: Disk, path: str) -> Offsets:
    """The offsets in a checkpoint; none, without a complaint, if there is no such file."""
    data = read_whole(disk, path)
    return Offsets({}, None) if data is None else parse_offsets(data)


def read_epochs(disk: Disk, path: str) -> Epochs:
    data = read_whole(disk, path)
    return Epochs([], None) if data is None else parse_epochs(data)


def read_whole(disk: Disk, path: str) -> bytes | None:
    """All of a small file; None if it is not there. Waits for the disk."""
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
