"""Temporary directories of clusters, none of which outlives its cluster for long.

A directory is removed by whoever made it. A process that is killed cannot do that: its lock goes
with it, and the next cluster that needs a directory removes those that nobody holds any more.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp

PREFIX = "penstock-"
LOCK = "held"


class Scratch:
    """One directory, in the system's own place for such or in a given one."""

    def __init__(self, place: Path | None = None) -> None:
        root = Path(gettempdir()) if place is None else place
        _remove_abandoned(root)
        self.path = Path(mkdtemp(prefix=PREFIX, dir=root))
        # Locked before it has its name: nobody can find it unlocked.
        made = self.path / f"{LOCK}.new"
        self._lock = os.open(made, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / LOCK)

    def remove(self) -> None:
        rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(root: Path) -> None:
    for lock in root.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # another user's, held, or gone meanwhile
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
