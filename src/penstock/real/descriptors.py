"""File descriptors: how many this process may have, and who may take them.

Connections come from outside and may be many; files are what the node lives on. A share of the
descriptors is therefore kept from connections. Partitions may be many too: of the files that they
append to only those in use keep a descriptor.
"""

import os
import resource
import weakref
from collections import deque
from typing import Protocol

from penstock.world import DiskFailed, Done

KEPT_FOR_FILES_MIN = 64
KEPT_FOR_FILES_SHARE = 2  # a half
OPEN_FILES_SHARE = 4  # of a node's partitions: a quarter
OPEN_FILES_MIN = 32
OPEN_FILES_MAX = 8_192
LOOKS_PER_FILE_MAX = 16
SYNCS_AT_ONCE_MAX = 8
HELD_SHARE = 0.75  # of what connections may use: ranges on their way keep none of them out


def raise_limit() -> None:
    """As many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def connection_fd_max() -> int:
    """A connection with a higher descriptor is refused; the lowest free one is always used."""
    return limit() - max(KEPT_FOR_FILES_MIN, limit() // KEPT_FOR_FILES_SHARE)


class Descriptor:
    """An open file of the system: closed when nobody holds it any more."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Parkable(Protocol):
    """A file that can do without its descriptor."""

    used: bool
    unsynced: bool

    @property
    def parked(self) -> bool: ...
    def park(self) -> None:
        """Give the descriptor back, unless somebody works with it."""
        ...

    def abandon(self, failure: DiskFailed) -> None: ...
    def sync(self, done: Done) -> None: ...


class Descriptors:
    """The files that have taken their descriptor again, in the order of a clock's hand: when there
    are too many, those that were not used since it last passed give theirs back."""

    def __init__(self, files_max: int | None = None) -> None:
        if files_max is None:
            files_max = max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, limit() // OPEN_FILES_SHARE))
        self._files_max = files_max
        self.pinned_max = max(1, files_max // 2)  # by a round of syncs, at a time
        # The lowest free descriptor is always used: a higher one tells that as many are open.
        self.held_fd_max = int(connection_fd_max() * HELD_SHARE)
        self._files: deque[weakref.ref[Parkable]] = deque()
        self._unsynced: deque[Parkable] = deque()  # parked with bytes that may not be durable
        self._syncing = 0

    def __len__(self) -> int:
        return len(self._files)

    def taken_by(self, file: Parkable) -> None:
        looks = LOOKS_PER_FILE_MAX
        while len(self._files) >= self._files_max and looks:
            looks -= 1
            self._look(self._files.popleft())
        self._files.append(weakref.ref(file))  # only now: it is not to give it back at once

    def _look(self, reference: "weakref.ref[Parkable]") -> None:
        file = reference()
        if file is None or file.parked:
            return
        if file.used:
            file.used = False
        else:
            file.park()
            if file.unsynced:
                self._unsynced.append(file)
                self._sync()
        if not file.parked:
            self._files.append(reference)

    def _sync(self) -> None:
        """Soon after: while no descriptor is open the kernel may forget that a write has failed."""
        while self._unsynced and self._syncing < SYNCS_AT_ONCE_MAX:
            self._syncing += 1
            file = self._unsynced.popleft()
            file.sync(lambda failure, file=file: self._synced(file, failure))  # type: ignore[misc]

    def _synced(self, file: Parkable, failure: DiskFailed | None) -> None:
        self._syncing -= 1
        if failure is not None:
            file.abandon(failure)
        self._sync()
