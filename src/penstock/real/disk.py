"""Files and directories of the operating system.

The loop never waits here: reads take bytes from the page cache, and syncs and removals run on a
worker. Calls ending in `_now` wait; start and stop use them.
"""

import ctypes
import fcntl
import itertools
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from penstock.real.descriptors import Descriptors
from penstock.real.file import FLAGS, RealFile, complaint, complaints
from penstock.world import DiskFailed, Done, File, FileLost, TooManyFiles

SHARING_THREADS = 4
# For new files, and for new directories
OWN_MODES = 0o600, 0o700
GROUP_MODES = 0o640, 0o750
# One call for a whole file system; Python's library lacks it.
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
_unique = itertools.count()
_ASIDE = re.compile(r".+\.\d+\.tmp")  # the temporary files of `_replace`
_locked_here: set[str] = set()  # POSIX locks do not exclude their own process


def _create(path: str, data: bytes, mode: int, *, synced: bool) -> None:
    """Create a small file, whole or not at all."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            written = os.write(fd, data)
            while written < len(data):
                written += os.write(fd, data[written:])
            if synced:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError:
        with suppress(OSError):
            os.unlink(path)  # leftovers would fill the disk further
        raise


def _make_directories(path: str, mode: int) -> None:
    """Make a directory and its missing parents. `os.makedirs` leaves the parents to the umask."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path) or "."
    for each in reversed(missing):
        try:
            os.mkdir(each, mode)
        except FileExistsError:  # made meanwhile, or by the same path without its last slash
            if not os.path.isdir(each):
                raise


def _holds(path: str, data: bytes) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(fd).st_size == len(data) and os.pread(fd, len(data), 0) == data
    finally:
        os.close(fd)


def _each(works: Sequence[Callable[[], None]]) -> None:
    """Run all works; after FileLost continue with the others, and raise it at the end."""
    lost: FileLost | None = None
    for work in works:
        try:
            work()
        except FileLost as failure:
            lost = failure
    if lost is not None:
        raise lost


class Runner(Protocol):
    """Runs the work of a disk: world.Workers, or a thread pool of this disk alone."""

    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None: ...


def worst_of(*failures: DiskFailed | None) -> DiskFailed | None:
    """Return the failure that matters most: a lost file or a lack of descriptors does not condemn
    the disk."""
    known = [each for each in failures if each is not None]
    known.sort(key=lambda each: (isinstance(each, FileLost), isinstance(each, TooManyFiles)))
    return known[0] if known else None


class RealDisk:
    """A directory tree of the operating system; new files are readable by this user only, or by the
    user's group too."""

    def __init__(
        self,
        root: str,
        workers: Runner,
        descriptors: Descriptors | None = None,
        *,
        group_access: bool = False,
    ) -> None:
        self.file_mode, self.directory_mode = GROUP_MODES if group_access else OWN_MODES
        self.root = os.path.abspath(root)
        self.descriptors = descriptors if descriptors is not None else Descriptors()
        self._workers = workers
        self._locks: list[tuple[str, int]] = []
        self._synced_directories: set[str] = set()

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def offload(self, work: Callable[[], None], done: Done) -> None:
        def finished(_result: object, failure: BaseException | None) -> None:
            if failure is None or isinstance(failure, DiskFailed):
                done(failure)
            else:
                done(DiskFailed(str(failure)))

        self._workers.run(work, (), finished)

    # -- files

    def open(self, path: str, *, create: bool = False) -> RealFile:
        what = f"cannot open {self._at(path)}"
        try:
            return RealFile(self, path, os.open(self._at(path), FLAGS), fresh=False)
        except FileNotFoundError:
            if not create:
                raise
        except OSError as error:
            raise complaint(what, error) from error
        with complaints(what):
            fd = os.open(self._at(path), FLAGS | os.O_CREAT, self.file_mode)
            return RealFile(self, path, fd, fresh=True)

    def list(self, path: str = "") -> list[str]:
        with complaints(f"cannot list {self._at(path)}"):
            return sorted(os.listdir(self._at(path)))

    def size(self, path: str) -> int:
        with complaints(f"cannot look at {self._at(path)}"):
            return os.stat(self._at(path)).st_size

    def modified_ms(self, path: str) -> int:
        with complaints(f"cannot look at {self._at(path)}"):
            return os.stat(self._at(path)).st_mtime_ns // 1_000_000

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._at(path))

    def free_bytes(self) -> int:
        with complaints(f"cannot look at {self.root}"):
            facts = os.statvfs(self.root)
        return facts.f_bavail * facts.f_frsize

    def total_bytes(self) -> int:
        with complaints(f"cannot look at {self.root}"):
            facts = os.statvfs(self.root)
        return facts.f_blocks * facts.f_frsize

    def sync_files(self, files: Sequence[File], done: Done) -> None:
        mine = [file for file in files if isinstance(file, RealFile)]
        # Pinned files keep their descriptors, so pin only a part: appends need some meanwhile.
        some, rest = mine[: self.descriptors.pinned_max], mine[self.descriptors.pinned_max :]
        for file in some:
            file.pin()

        def synced(failure: DiskFailed | None) -> None:
            for file in some:
                file.unpin()
            if not rest:
                done(failure)
            else:
                self.sync_files(rest, lambda other: done(worst_of(failure, other)))

        self.offload_all([file.sync_now for file in some], synced)

    def offload_all(self, works: Sequence[Callable[[], None]], done: Done) -> None:
        shares = [works[first::SHARING_THREADS] for first in range(SHARING_THREADS)]
        shares = [share for share in shares if share] or [()]
        left = len(shares)
        failures: list[DiskFailed] = []

        def one_done(failure: DiskFailed | None) -> None:
            nonlocal left
            left -= 1
            if failure is not None:
                failures.append(failure)
            if left == 0:
                done(worst_of(*failures))

        for share in shares:
            self.offload(lambda share=share: _each(share), one_done)  # type: ignore[misc]

    def make_directory(self, path: str) -> None:
        with complaints(f"cannot make the directory {self._at(path)}"):
            _make_directories(self._at(path), self.directory_mode)

    def sync_name(self, full_path: str) -> None:
        """Make a file's name durable, and its directory's, up to the root."""
        directory = os.path.dirname(full_path)
        self._sync_directory(directory)
        if directory != self.root and directory not in self._synced_directories:
            self.sync_name(directory)
            self._synced_directories.add(directory)

    def _sync_directory(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, path: str, data: bytes | Callable[[], bytes], done: Done) -> None:
        self.offload(lambda: self.replace_now(path, data() if callable(data) else data), done)

    def replace_now(self, path: str, data: bytes) -> None:
        target = self._at(path)
        with complaints(f"cannot write {target}"):
            self._replace(target, data, synced=True)
            self.sync_name(target)

    def put_now(self, path: str, data: bytes) -> None:
        # Most files are new or unchanged here. A temporary file and a rename would cost three times
        # as much, for thousands of logs at a stop.
        target = self._at(path)
        with complaints(f"cannot write {target}"):
            if os.path.exists(target):
                if not _holds(target, data):
                    self._replace(target, data, synced=False)
            else:
                _create(target, data, self.file_mode, synced=False)

    def _replace(self, target: str, data: bytes, *, synced: bool) -> None:
        aside = f"{target}.{next(_unique)}.tmp"  # two writers of one name need two temporary files
        _create(aside, data, self.file_mode, synced=synced)
        try:
            os.replace(aside, target)
        except OSError:
            with suppress(OSError):
                os.unlink(aside)
            raise

    def remove_leftovers_now(self) -> None:
        with complaints(f"cannot look through {self.root}"):
            for name in filter(_ASIDE.fullmatch, self.list()):
                with suppress(OSError):  # a leftover does no harm
                    os.unlink(self._at(name))

    def sync_everything_now(self) -> None:
        with complaints(f"cannot sync {self.root}"):
            if _syncfs is None:
                os.sync()
                return
            fd = os.open(self.root, os.O_RDONLY)
            try:
                if _syncfs(fd) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            finally:
                os.close(fd)

    def rename(self, source: str, target: str, done: Done) -> None:
        self.offload(lambda: self.rename_now(source, target), done)

    def rename_now(self, source: str, target: str) -> None:
        with complaints(f"cannot rename {self._at(source)}"):
            os.replace(self._at(source), self._at(target))
            self._sync_directory(os.path.dirname(self._at(target)))
            self._synced_directories.discard(self._at(source))

    def rename_all_now(self, pairs: Sequence[tuple[str, str]]) -> None:
        if not pairs:
            return
        directory = os.path.dirname(self._at(pairs[0][1]))
        with complaints(f"cannot rename files in {directory}"):
            for source, target in pairs:
                assert os.path.dirname(self._at(target)) == directory, "one sync is for one place"
                os.replace(self._at(source), self._at(target))
            self._sync_directory(directory)

    def remove(self, path: str, done: Done) -> None:
        self.offload(lambda: self.remove_now(path), done)

    def remove_now(self, path: str) -> None:
        with complaints(f"cannot remove {self._at(path)}"):
            try:
                if self.is_directory(path):
                    shutil.rmtree(self._at(path))
                else:
                    os.unlink(self._at(path))
            except FileNotFoundError:
                pass
            self._synced_directories.discard(self._at(path))

    # -- the lock

    def lock(self, path: str) -> bool:
        with complaints(f"cannot make the directory {self.root}"):
            _make_directories(self.root, self.directory_mode)
        target = os.path.realpath(self._at(path))
        if target in _locked_here:
            return False
        with complaints(f"cannot open the lock file {target}"):
            fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self.file_mode)
        try:
            # The lock that Java takes, so that Apache Kafka is excluded too.
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        _locked_here.add(target)
        self._locks.append((target, fd))
        return True

    def unlock(self) -> None:
        for target, fd in self._locks:
            _locked_here.discard(target)
            os.close(fd)
        self._locks.clear()


def is_locked(path: str) -> bool:
    """Return whether a node holds this lock file; the check creates nothing."""
    target = os.path.realpath(path)
    if target in _locked_here:  # closing another descriptor would release that lock
        return True
    try:
        with open(target, "rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return False
    return False
