"""Compares the files of a log with the written sizes: other processes may have removed, replaced,
cut or extended a file.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.log.directory import LOG
from penstock.log.segment import ActiveSegment, ClosedSegment
from penstock.world import Disk, File, FileLost

if TYPE_CHECKING:
    from penstock.log.log import Log

Segment: TypeAlias = ActiveSegment | ClosedSegment


class FileCheck(NamedTuple):
    """One segment, and a check of its file that raises FileLost. `look` waits for the disk, on any
    thread."""

    segment: Segment
    look: Callable[[], None]


def file_checks(log: "Log", *, closed: bool) -> list[FileCheck]:
    """Return the checks of the active segment and, with `closed`, of the closed ones. During a swap
    the files of closed segments have other names."""
    active = log.active
    checks = [FileCheck(active, partial(active.file.verify, active.size))]
    if closed and not log.swapping:
        checks += [FileCheck(each, _look_at(log, each)) for each in log.closed]
    return checks


def holds(log: "Log", segment: Segment) -> bool:
    """Return whether a checked segment is still part of the log."""
    return segment is log.active or any(each is segment for each in log.closed)


def _look_at(log: "Log", segment: ClosedSegment) -> Callable[[], None]:
    path = segment.path(LOG)
    return partial(_measure, log.disk, path, segment.size, log.files.known(path))


def _measure(disk: Disk, path: str, size: int, opened: File | None) -> None:
    if opened is not None:
        opened.verify(size)
    found = disk.size(path)
    if found < size:
        raise FileLost(
            f"{disk.root}/{path} has only {found} of its {size} bytes: it was cut from outside"
        )
    if found > size:  # a file opened after the damage takes the foreign bytes for its own
        raise FileLost(
            f"{disk.root}/{path} has {found} bytes, and {size} were written: another process has"
            f" appended to it. Cutting it to {size} bytes repairs it"
        )
