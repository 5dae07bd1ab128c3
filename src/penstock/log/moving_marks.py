"""What tells which of a partition's two directories counts, while it moves from one to the other.

The original gets a file that names the directory it leaves for, the copy one that names where it
comes from, both with the token of that one move. `decided` in the copy's file is the word that the
copy counts; that the original's file is gone is the word that it does not. Both become durable
before anything follows from them. broker/arrivals.py says what a start makes of them.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.log.checkpoints import read_whole
from penstock.log.directory import MOVED_FROM_FILE, MOVING_TO_FILE
from penstock.world import Disk, DiskFailed, FileLost

_UNDONE = ".undone"
_OFFERED, _DECIDED = "offered", "decided"
_NOBODY = "?"  # no directory has this id


class Departure(NamedTuple):
    """In the original: a copy with this token may count instead."""

    target_id: str
    token: str


class Arrival(NamedTuple):
    """In the copy: which original it replaces, and whether that is certain."""

    source_id: str
    token: str
    start_offset: int  # of the log; the checkpoint of the copy's directory follows later
    decided: bool


def read_departure(disk: Disk, directory: str) -> Departure | None:
    """What makes no sense names a directory that nobody has: the partition is not used then."""
    data = read_whole(disk, f"{directory}/{MOVING_TO_FILE}")
    if data is None:
        return None
    fields = data.decode(errors="replace").split()
    return Departure(*fields) if len(fields) == 2 else Departure(_NOBODY, "")


def write_departure(disk: Disk, directory: str, departure: Departure) -> None:
    disk.replace_now(f"{directory}/{MOVING_TO_FILE}", " ".join(departure).encode())


def clear_departure(disk: Disk, directory: str) -> None:
    """The original counts, durably. By another name, as that needs no room."""
    path = f"{directory}/{MOVING_TO_FILE}"
    with suppress(FileLost):  # there is none; a disk that fails would say something else
        disk.rename_now(path, path + _UNDONE)
    with suppress(DiskFailed):  # under that name it says nothing
        disk.remove_now(path + _UNDONE)


def read_arrivals(disk: Disk, directory: str) -> list[Arrival]:
    """More than one where a copy was moved on before its first original could be put away."""
    data = read_whole(disk, f"{directory}/{MOVED_FROM_FILE}")
    if data is None:
        return []
    try:
        return [_parse(line) for line in data.decode().splitlines()]
    except ValueError:
        return [Arrival(_NOBODY, "", 0, decided=False)]


def _parse(line: str) -> Arrival:
    source_id, token, start_offset, state = line.split(" ")
    if state not in (_OFFERED, _DECIDED):
        raise ValueError(state)
    return Arrival(source_id, token, int(start_offset), state == _DECIDED)


def write_arrivals(disk: Disk, directory: str, arrivals: Sequence[Arrival]) -> None:
    """Durable, and with it all names in the directory and its own."""
    lines = [
        f"{source_id} {token} {start_offset} {_DECIDED if decided else _OFFERED}\n"
        for source_id, token, start_offset, decided in arrivals
    ]
    disk.replace_now(f"{directory}/{MOVED_FROM_FILE}", "".join(lines).encode())


def drop_arrivals(disk: Disk, directory: str, settled: Sequence[Arrival]) -> None:
    """The originals of these are put away. Should this not last, a start does it again."""
    arrivals = read_arrivals(disk, directory)
    left = [each for each in arrivals if each not in settled]
    if left and left != arrivals:
        write_arrivals(disk, directory, left)
    elif not left and arrivals:
        disk.remove_now(f"{directory}/{MOVED_FROM_FILE}")
