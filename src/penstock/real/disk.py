"""Files and directories of the operating system.

Nothing here makes the loop wait: reads take what the page cache has, everything that syncs or
unlinks runs on a worker. Calls ending in `_now` wait; start and stop use them.
"""

import ctypes
import errno
import fcntl
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from penstock.world import (
    Buffer,
    Cold,
    DiskFailed,
    DiskFull,
    Done,
    File,
    FileLost,
    TooManyFiles,
    Workers,
)

PARTS_PER_WRITE_MAX = 1_024  # IOV_MAX
JOIN_BYTES_MAX = 64 * 1024
PROBE_STEP_BYTES = 64 * 1024  # well below the kernel's read-ahead
READ_AHEAD_BYTES = 256 * 1024
SHARING_THREADS = 4
_KINDS: dict[int, type[DiskFailed]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EMFILE: TooManyFiles,
    errno.ENFILE: TooManyFiles,
    errno.ENOENT: FileLost,
    errno.ENOTDIR: FileLost,
}
# Not every file system can answer "only if it is in memory"; those that cannot are read plainly.
_NO_NOWAIT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
# One call for a whole file system; Python has none of its own.
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
_unique = itertools.count()
_ASIDE = re.compile(r".+\.\d+\.tmp")  # what `_replace` writes before it gets its name
_locked_here: set[str] = set()  # POSIX locks do not keep one process from itself


@contextmanager
def _complaints(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _complaint(what, error) from error


def _complaint(what: str, error: OSError) -> DiskFailed:
    kind = _KINDS.get(error.errno or 0, DiskFailed)
    return kind(f"{what}: {error.strerror or error}")


class RealFile:
    """An open file. The descriptor goes when the last reference (a range being sent) does."""

    __slots__ = (
        "_closed",
        "_disk",
        "_fd",
        "_lost",
        "_name_synced",
        "_nowait",
        "_where",
        "path",
        "size",
    )

    def __init__(self, disk: "RealDisk", path: str, fd: int, *, fresh: bool) -> None:
        self._disk = disk
        self._fd = fd
        self._closed = False
        self._lost: FileLost | None = None  # cut by somebody else; the kernel has no more to give
        self._name_synced = not fresh
        self._nowait = bool(_NOWAIT)
        self.path = path
        self._where = f"{disk.root}/{path}"
        self.size = os.fstat(fd).st_size

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def append(self, parts: Sequence[Buffer]) -> None:
        assert not self._closed, "a closed file takes no writes"
        before = self.size
        try:
            if len(parts) == 1:
                self._write(parts[0])
            else:
                self._write_parts(parts)
        except OSError as error:
            self.size = before
            with _complaints(f"cannot cut {self._where} back"):
                os.ftruncate(self._fd, before)
            raise _complaint(f"cannot write {self._where}", error) from error

    def _write(self, part: Buffer) -> None:
        written = os.write(self._fd, part)
        self.size += written
        while written < len(part):
            more = os.write(self._fd, memoryview(part)[written:])
            written += more
            self.size += more

    def _write_parts(self, parts: Sequence[Buffer]) -> None:
        total = sum(map(len, parts))
        if total <= JOIN_BYTES_MAX:
            self._write(b"".join(parts))
            return
        for first in range(0, len(parts), PARTS_PER_WRITE_MAX):
            some = parts[first : first + PARTS_PER_WRITE_MAX]
            expected = sum(map(len, some))
            written = os.writev(self._fd, some)
            self.size += written
            if written < expected:
                self._write(b"".join(some)[written:])

    def read(self, position: int, size: int) -> bytes:
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        if not self._nowait:
            return self._read_whole(position, size)
        target = bytearray(size)
        try:
            got = os.preadv(self._fd, (target,), position, _NOWAIT)
        except BlockingIOError:
            raise self._cold(position, size) from None
        except OSError as error:
            if error.errno in _NO_NOWAIT:
                self._nowait = False
                return self._read_whole(position, size)
            raise _complaint(f"cannot read {self._where}", error) from error
        if got < size:
            raise self._cold(position, size)
        return bytes(target)

    def _read_whole(self, position: int, size: int) -> bytes:
        data = self.read_now(position, size)
        if len(data) < size:
            raise self._cut_short(position + len(data))
        return data

    def _cold(self, position: int, size: int) -> Cold | FileLost:
        """Not in memory, or not there at all: only a read that waits can tell."""
        if self._lost is not None and self.size_now() < position + size:
            return self._lost
        return Cold(self, position, size)

    def size_now(self) -> int:
        return os.fstat(self._fd).st_size

    def _cut_short(self, end: int) -> FileLost:
        self._lost = FileLost(
            f"{self._where} has only {end} of its {self.size} bytes: somebody else has cut it"
        )
        return self._lost

    def probe(self, position: int, size: int) -> None:
        if not self._nowait or size <= 0:
            return
        last = min(position + size, self.size) - 1
        byte = (bytearray(1),)
        try:
            for at in (*range(position, last, PROBE_STEP_BYTES), last):
                if not os.preadv(self._fd, byte, at, _NOWAIT):
                    raise self._cold(position, size)
        except BlockingIOError:
            raise self._cold(position, size) from None
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise _complaint(f"cannot read {self._where}", error) from error
            self._nowait = False

    def warm(self, position: int, size: int, done: Done) -> None:
        self._disk.offload(lambda: self._read_in(position, size), done)

    def _read_in(self, position: int, size: int) -> None:
        with _complaints(f"cannot read {self._where}"):
            target = bytearray(READ_AHEAD_BYTES)
            needed = min(position + size, self.size)
            end = position + max(size, READ_AHEAD_BYTES)
            while position < end:
                got = os.preadv(self._fd, (target,), position)
                if got == 0:
                    break
                position += got
        if position < needed:
            raise self._cut_short(position)

    def read_now(self, position: int, size: int) -> bytes:
        with _complaints(f"cannot read {self._where}"):
            parts = []
            while size > 0 and (part := os.pread(self._fd, size, position)):
                parts.append(part)
                position += len(part)
                size -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def truncate(self, size: int, done: Done) -> None:
        self.size = min(size, self.size)
        self._disk.offload(lambda: self._cut(size), done)

    def truncate_now(self, size: int) -> None:
        self.size = min(size, self.size)
        self._cut(size)

    def _cut(self, size: int) -> None:
        with _complaints(f"cannot truncate {self._where}"):
            os.ftruncate(self._fd, size)

    def sync(self, done: Done) -> None:
        self._disk.offload(self.sync_now, done)

    def sync_now(self) -> None:
        with _complaints(f"cannot sync {self._where}"):
            os.fdatasync(self._fd) if hasattr(os, "fdatasync") else os.fsync(self._fd)
            if not self._name_synced:
                self._disk.sync_name(self._where)
                self._name_synced = True

    def close(self) -> None:
        self._closed = True


def _create(path: str, data: bytes, *, synced: bool) -> None:
    """A small file, whole or not at all."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
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
            os.unlink(path)  # they would add up on a disk that is full
        raise


def _holds(path: str, data: bytes) -> bool:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.fstat(fd).st_size == len(data) and os.pread(fd, len(data), 0) == data
    finally:
        os.close(fd)


def _each(works: Sequence[Callable[[], None]]) -> None:
    """A file that is lost says nothing about the others: their work is done all the same."""
    lost: FileLost | None = None
    for work in works:
        try:
            work()
        except FileLost as failure:
            lost = failure
    if lost is not None:
        raise lost


class RealDisk:
    """A directory tree of the operating system."""

    def __init__(self, root: str, workers: Workers) -> None:
        self.root = os.path.abspath(root)
        self._workers = workers
        self._locks: list[tuple[str, int]] = []
        self._synced_directories: set[str] = set()
        with _complaints(f"cannot make the directory {self.root}"):
            os.makedirs(self.root, exist_ok=True)

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
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        what = f"cannot open {self._at(path)}"
        try:
            return RealFile(self, path, os.open(self._at(path), flags), fresh=False)
        except FileNotFoundError:
            if not create:
                raise
        except OSError as error:
            raise _complaint(what, error) from error
        with _complaints(what):
            fd = os.open(self._at(path), flags | os.O_CREAT, 0o644)
            return RealFile(self, path, fd, fresh=True)

    def list(self, path: str = "") -> list[str]:
        with _complaints(f"cannot list {self._at(path)}"):
            return sorted(os.listdir(self._at(path)))

    def size(self, path: str) -> int:
        with _complaints(f"cannot look at {self._at(path)}"):
            return os.stat(self._at(path)).st_size

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._at(path))

    def free_bytes(self) -> int:
        with _complaints(f"cannot look at {self.root}"):
            facts = os.statvfs(self.root)
        return facts.f_bavail * facts.f_frsize

    def total_bytes(self) -> int:
        with _complaints(f"cannot look at {self.root}"):
            facts = os.statvfs(self.root)
        return facts.f_blocks * facts.f_frsize

    def sync_files(self, files: Sequence[File], done: Done) -> None:
        self.offload_all([file.sync_now for file in files], done)

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
                failures.sort(key=lambda each: isinstance(each, FileLost))
                done(failures[0] if failures else None)

        for share in shares:
            self.offload(lambda share=share: _each(share), one_done)  # type: ignore[misc]

    def make_directory(self, path: str) -> None:
        with _complaints(f"cannot make the directory {self._at(path)}"):
            os.makedirs(self._at(path), exist_ok=True)

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

    def replace(self, path: str, data: bytes, done: Done) -> None:
        self.offload(lambda: self.replace_now(path, data), done)

    def replace_now(self, path: str, data: bytes) -> None:
        target = self._at(path)
        with _complaints(f"cannot write {target}"):
            self._replace(target, data, synced=True)
            self.sync_name(target)

    def put_now(self, path: str, data: bytes) -> None:
        # Most often the file is new, or says this already: a stop with thousands of logs lives on
        # that, since a file aside and a rename cost three times as much as a file.
        target = self._at(path)
        with _complaints(f"cannot write {target}"):
            if os.path.exists(target):
                if not _holds(target, data):
                    self._replace(target, data, synced=False)
            else:
                _create(target, data, synced=False)

    def _replace(self, target: str, data: bytes, *, synced: bool) -> None:
        aside = f"{target}.{next(_unique)}.tmp"  # two writers of one name must not meet here
        _create(aside, data, synced=synced)
        try:
            os.replace(aside, target)
        except OSError:
            with suppress(OSError):
                os.unlink(aside)
            raise

    def remove_leftovers_now(self) -> None:
        with _complaints(f"cannot look through {self.root}"):
            for name in filter(_ASIDE.fullmatch, self.list()):
                with suppress(OSError):  # what cannot be removed does no harm
                    os.unlink(self._at(name))

    def sync_everything_now(self) -> None:
        with _complaints(f"cannot sync {self.root}"):
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
        with _complaints(f"cannot rename {self._at(source)}"):
            os.replace(self._at(source), self._at(target))
            self._sync_directory(os.path.dirname(self._at(target)))
            self._synced_directories.discard(self._at(source))

    def remove(self, path: str, done: Done) -> None:
        self.offload(lambda: self.remove_now(path), done)

    def remove_now(self, path: str) -> None:
        with _complaints(f"cannot remove {self._at(path)}"):
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
        target = os.path.realpath(self._at(path))
        if target in _locked_here:
            return False
        with _complaints(f"cannot open the lock file {target}"):
            fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The kind of lock that Java takes, so that an Apache Kafka is kept out as well.
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
