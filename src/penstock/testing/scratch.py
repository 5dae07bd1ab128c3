"""Temporary directories of clusters, none of which outlives its cluster for long.

The maker of a directory removes it. A killed process cannot; but its lock goes with it, and the
next cluster that needs a directory removes the unlocked ones.
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
    """One temporary directory, in the system's default location or in a given one."""

    def __init__(self, place: Path | None = None) -> None:
        root = Path(gettempdir()) if place is None else place
        _remove_abandoned(root)
        self.path = Path(mkdtemp(prefix=PREFIX, dir=root))
        # Locked before it gets its name: no other process can find it unlocked.
        made = self.path / f"{LOCK}.new"
        self._lock = os.open(made, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.path / LOCK)

    def remove(self) -> None:
        rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_abandoned(root: Path) -> None:
    for lock in root.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # of another user, locked, or removed meanwhile
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
