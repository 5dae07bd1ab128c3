"""Marks that decide which of a partition's two directories counts during a move.

The source replica gets a file that names its destination, the future replica one that names its
origin; both hold the token of the move. `decided` in the future replica's file means that the
future replica counts. A missing source file means that it does not. Both become durable before any
later step. broker/startup/move_recovery.py applies them at a start.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.log.checkpoints import read_whole
from penstock.log.directory import MOVED_FROM_FILE, MOVING_TO_FILE
from penstock.world import Disk, DiskFailed, FileLost

_UNDONE = ".undone"
_OFFERED, _DECIDED = "offered", "decided"
_NO_DIRECTORY = "?"  # no directory has this id


class SourceMark(NamedTuple):
    """In the source replica: a future replica with this token may count instead."""

    target_id: str
    token: str


class FutureMark(NamedTuple):
    """In the future replica: the replaced source, and whether the replacement is decided."""

    source_id: str
    token: str
    start_offset: int  # of the log; the directory's checkpoint follows later
    decided: bool


def read_source_mark(disk: Disk, directory: str) -> SourceMark | None:
    """Return the mark, or None. A damaged mark names no known directory, so that the partition
    stays unused."""
    data = read_whole(disk, f"{directory}/{MOVING_TO_FILE}")
    if data is None:
        return None
    fields = data.decode(errors="replace").split()
    return SourceMark(*fields) if len(fields) == 2 else SourceMark(_NO_DIRECTORY, "")


def write_source_mark(disk: Disk, directory: str, departure: SourceMark) -> None:
    disk.replace_now(f"{directory}/{MOVING_TO_FILE}", " ".join(departure).encode())


def clear_source_mark(disk: Disk, directory: str) -> None:
    """Let the source replica count, durably. A rename needs no disk space, a removal follows."""
    path = f"{directory}/{MOVING_TO_FILE}"
    with suppress(FileLost):  # no mark; a failing disk raises another error
        disk.rename_now(path, path + _UNDONE)
    with suppress(DiskFailed):  # under the new name the file has no effect
        disk.remove_now(path + _UNDONE)


def read_future_marks(disk: Disk, directory: str) -> list[FutureMark]:
    """Return the marks; several if a replica moved on before its first source was renamed."""
    data = read_whole(disk, f"{directory}/{MOVED_FROM_FILE}")
    if data is None:
        return []
    try:
        return [_parse(line) for line in data.decode().splitlines()]
    except ValueError:
        return [FutureMark(_NO_DIRECTORY, "", 0, decided=False)]


def _parse(line: str) -> FutureMark:
    source_id, token, start_offset, state = line.split(" ")
    if state not in (_OFFERED, _DECIDED):
        raise ValueError(state)
    return FutureMark(source_id, token, int(start_offset), state == _DECIDED)


def write_future_marks(disk: Disk, directory: str, arrivals: Sequence[FutureMark]) -> None:
    """Write the marks, and sync the directory and its parent."""
    lines = [
        f"{source_id} {token} {start_offset} {_DECIDED if decided else _OFFERED}\n"
        for source_id, token, start_offset, decided in arrivals
    ]
    disk.replace_now(f"{directory}/{MOVED_FROM_FILE}", "".join(lines).encode())


def drop_future_marks(disk: Disk, directory: str, settled: Sequence[FutureMark]) -> None:
    """Drop the marks of renamed sources. If a crash undoes that, a start repeats it."""
    arrivals = read_future_marks(disk, directory)
    left = [each for each in arrivals if each not in settled]
    if left and left != arrivals:
        write_future_marks(disk, directory, left)
    elif not left and arrivals:
        disk.remove_now(f"{directory}/{MOVED_FROM_FILE}")
