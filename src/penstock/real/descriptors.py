"""File descriptors: the limit of this process, and the shares of files and connections.

Connections come from outside and may be many, but a node depends on its files. So a share of the
descriptors is kept from connections. Partitions may be many too: only those in use keep a
descriptor.
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
HELD_SHARE = 0.75  # of the connections' share: ranges in flight must not exclude connections


def raise_limit() -> None:
    """Raise the limit as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def connection_fd_max() -> int:
    """Return the highest descriptor for a connection; the system always gives the
    lowest free one."""
    return limit() - max(KEPT_FOR_FILES_MIN, limit() // KEPT_FOR_FILES_SHARE)


class Descriptor:
    """An open file of the system, closed with its last reference."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class Parkable(Protocol):
    """A file that can give its descriptor back."""

    used: bool
    unsynced: bool

    @property
    def parked(self) -> bool: ...
    def park(self) -> None:
        """Give the descriptor back, unless a user holds it."""
        ...

    def abandon(self, failure: DiskFailed) -> None: ...
    def sync(self, done: Done) -> None: ...


class Descriptors:
    """The files with a descriptor, in the order of a clock algorithm: beyond the limit, files
    unused since the last round give theirs back."""

    def __init__(self, files_max: int | None = None) -> None:
        if files_max is None:
            files_max = max(OPEN_FILES_MIN, min(OPEN_FILES_MAX, limit() // OPEN_FILES_SHARE))
        self._files_max = files_max
        self.pinned_max = max(1, files_max // 2)  # by one round of syncs
        # The system gives the lowest free descriptor, so its number tells how many are open.
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
        self._files.append(weakref.ref(file))  # after the check, which must not park this file

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
        """Sync soon: without an open descriptor the kernel may forget a failed write."""
        while self._unsynced and self._syncing < SYNCS_AT_ONCE_MAX:
            self._syncing += 1
            file = self._unsynced.popleft()
            file.sync(lambda failure, file=file: self._synced(file, failure))  # type: ignore[misc]

    def _synced(self, file: Parkable, failure: DiskFailed | None) -> None:
        self._syncing -= 1
        if failure is not None:
            file.abandon(failure)
        self._sync()
