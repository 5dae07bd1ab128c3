"""One file of the operating system: reads take bytes from the page cache, an append is one write.

An unused file gives its descriptor back (descriptors.py chooses) and takes another at its next use.
"""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from penstock.real.descriptors import Descriptor, Descriptors
from penstock.world import Buffer, Cold, DiskFailed, DiskFull, Done, FileLost, TooManyFiles

PARTS_PER_WRITE_MAX = 1_024  # IOV_MAX
JOIN_BYTES_MAX = 64 * 1024
PROBE_STEP_BYTES = 64 * 1024  # well below the kernel's read-ahead
READ_AHEAD_BYTES = 256 * 1024
FLAGS = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_KINDS: dict[int, type[DiskFailed]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EMFILE: TooManyFiles,
    errno.ENFILE: TooManyFiles,
    errno.ENOENT: FileLost,
    errno.ENOTDIR: FileLost,
}
# Some file systems cannot answer "only if cached"; those are read plainly.
_NO_NOWAIT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
# Python's posix_fallocate would extend the file, and appends would follow the extension.
_fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
_KEEP_SIZE = 1


class Home(Protocol):
    """The services of the disk that a file uses."""

    root: str
    descriptors: Descriptors

    def offload(self, work: Callable[[], None], done: Done) -> None: ...
    def sync_name(self, full_path: str) -> None: ...


@contextmanager
def complaints(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise complaint(what, error) from error


def complaint(what: str, error: OSError) -> DiskFailed:
    kind = _KINDS.get(error.errno or 0, DiskFailed)
    return kind(f"{what}: {error.strerror or error}")


class RealFile:
    """A file. Its descriptor closes with the last reference, or earlier when unused.

    A range being sent holds the descriptor that it began with. Only the loop takes and gives
    descriptors; work on other threads pins one, or opens its own.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_cuts",
        "_descriptor",
        "_disk",
        "_edits",
        "_failure",
        "_fd",
        "_identity",
        "_name_synced",
        "_nowait",
        "_pins",
        "_where",
        "path",
        "size",
        "unsynced",
        "used",
    )

    def __init__(self, disk: Home, path: str, fd: int, *, fresh: bool) -> None:
        self._disk = disk
        self._fd = fd
        self._descriptor: Descriptor | None = Descriptor(fd)
        self._closed = False
        self._failure: DiskFailed | None = None  # all further use fails with this
        self._name_synced = not fresh
        self._nowait = bool(_NOWAIT)
        self._pins = 0
        # For checks on other threads: odd while an append runs, and changed by every edit.
        self._edits = 0
        self._cuts = 0  # truncations that are not finished
        self.path = path
        self._where = f"{disk.root}/{path}"
        facts = os.fstat(fd)
        self._identity = (facts.st_dev, facts.st_ino)
        self.size = facts.st_size
        self.unsynced = False
        self.used = False  # since the last parking check

    # -- the descriptor

    def fileno(self) -> int:
        """Return the descriptor for the loop, reopened if it was given back."""
        fd = self._fd
        if fd < 0:
            fd = self._fd = self._open_again()
            self._descriptor = Descriptor(fd)
            self._disk.descriptors.taken_by(self)
        self.used = True
        return fd

    @property
    def parked(self) -> bool:
        return self._fd < 0

    def park(self) -> None:
        if self._fd >= 0 and not self._pins:
            self._fd = -1
            self._descriptor = None  # and closed, unless a range in flight holds it

    def hold(self) -> Descriptor | None:
        """Return the descriptor to hold, or None if too many are open: then the range opens its
        file when sent."""
        if self.fileno() >= self._disk.descriptors.held_fd_max:
            return None
        return self._descriptor

    def abandon(self, failure: DiskFailed) -> None:
        """Keep the failure of a background sync for the next user of the file."""
        self._failure = failure
        self.park()

    def _open_again(self) -> int:
        if self._failure is not None:
            raise self._failure
        what = f"cannot open {self._where}"
        with complaints(what):
            fd = os.open(self._where, FLAGS)
            facts = os.fstat(fd)
        if (facts.st_dev, facts.st_ino) != self._identity:
            os.close(fd)
            raise FileLost(f"{what}: another process has replaced the file")
        return fd

    @contextmanager
    def _borrowed(self) -> Iterator[int]:
        """Yield a descriptor for any thread, while the file is pinned or has no other user."""
        fd = self._fd
        if fd >= 0:
            yield fd
            return
        fd = self._open_again()
        try:
            yield fd
        finally:
            os.close(fd)

    def pin(self) -> None:
        """Keep the descriptor while another thread works on the file."""
        self._pins += 1

    def unpin(self) -> None:
        self._pins -= 1

    def _pinned(self, done: Done) -> Done:
        self.pin()

        def unpinned(failure: DiskFailed | None) -> None:
            self.unpin()
            done(failure)

        return unpinned

    # -- content

    def append(self, parts: Sequence[Buffer]) -> None:
        assert not self._closed, "a closed file takes no writes"
        before = self.size
        self.fileno()
        self.unsynced = True
        self._edits += 1
        try:
            if len(parts) == 1:
                self._write(parts[0])
            else:
                self._write_parts(parts)
            # O_APPEND writes at the end that the file has. The position tells where that was.
            position = os.lseek(self._fd, 0, os.SEEK_CUR)
            if position != self.size:
                self._take_back(before, position)
        except OSError as error:
            with complaints(f"cannot look at {self._where}"):
                end = os.fstat(self._fd).st_size
            self._take_back(before, end)
            raise complaint(f"cannot write {self._where}", error) from error
        finally:
            self._edits += 1

    def _take_back(self, before: int, end: int) -> None:
        """Take an append back that ended at `end`: the file stays as it was found. Raise FileLost
        if the append followed foreign bytes or a foreign cut."""
        found = end - (self.size - before)
        self.size = before
        with complaints(f"cannot cut {self._where} back"):
            os.ftruncate(self._fd, found)
        if found < before:
            raise self._shorter(found, before)
        if found > before:
            raise self._longer(found, before)

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
            got = os.preadv(self.fileno(), (target,), position, _NOWAIT)
        except BlockingIOError:
            raise self._cold(position, size) from None
        except OSError as error:
            if error.errno in _NO_NOWAIT:
                self._nowait = False
                return self._read_whole(position, size)
            raise complaint(f"cannot read {self._where}", error) from error
        if got < size:
            raise self._cold(position, size)
        return bytes(target)

    def _read_whole(self, position: int, size: int) -> bytes:
        data = self.read_now(position, size)
        if len(data) < size:
            raise self._cut_short(position + len(data))
        return data

    def _cold(self, position: int, size: int) -> Cold | FileLost:
        """Return Cold for bytes outside of memory, FileLost for a file that is too short; only a
        read that waits can tell."""
        if isinstance(self._failure, FileLost) and self._size_now() < position + size:
            return self._failure
        return Cold(self, position, size)

    def _size_now(self) -> int:
        return os.fstat(self._fd).st_size

    def _cut_short(self, end: int) -> FileLost:
        lost = FileLost(
            f"{self._where} has only {end} of its {self.size} bytes: another process has cut it"
        )
        self._failure = lost
        return lost

    def probe(self, position: int, size: int) -> None:
        if not self._nowait or size <= 0:
            return
        last = min(position + size, self.size) - 1
        byte = (bytearray(1),)
        fd = self.fileno()
        try:
            for at in (*range(position, last, PROBE_STEP_BYTES), last):
                if not os.preadv(fd, byte, at, _NOWAIT):
                    raise self._cold(position, size)
        except BlockingIOError:
            raise self._cold(position, size) from None
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise complaint(f"cannot read {self._where}", error) from error
            self._nowait = False

    def warm(self, position: int, size: int, done: Done) -> None:
        self._disk.offload(lambda: self._read_in(position, size), self._pinned(done))

    def _read_in(self, position: int, size: int) -> None:
        with complaints(f"cannot read {self._where}"), self._borrowed() as fd:
            target = bytearray(READ_AHEAD_BYTES)
            needed = min(position + size, self.size)
            end = position + max(size, READ_AHEAD_BYTES)
            while position < end:
                got = os.preadv(fd, (target,), position)
                if got == 0:
                    break
                position += got
        if position < needed:
            raise self._cut_short(position)

    def read_now(self, position: int, size: int) -> bytes:
        with complaints(f"cannot read {self._where}"), self._borrowed() as fd:
            parts = []
            while size > 0 and (part := os.pread(fd, size, position)):
                parts.append(part)
                position += len(part)
                size -= len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def truncate(self, size: int, done: Done) -> None:
        self._begin_cut(size)

        def cut(failure: DiskFailed | None) -> None:
            self._end_cut()
            done(failure)

        self._disk.offload(lambda: self._cut(size), self._pinned(cut))

    def truncate_now(self, size: int) -> None:
        self._begin_cut(size)
        try:
            self._cut(size)
        finally:
            self._end_cut()

    def _begin_cut(self, size: int) -> None:
        self._cuts += 1
        self._edits += 2
        self.size = min(size, self.size)

    def _end_cut(self) -> None:
        self._cuts -= 1
        self._edits += 2

    def _cut(self, size: int) -> None:
        with complaints(f"cannot truncate {self._where}"), self._borrowed() as fd:
            found = os.fstat(fd).st_size
            if found < size:  # zeros would follow its end
                raise self._shorter(found, size)
            os.ftruncate(fd, size)
        self.unsynced = True

    def reserve(self, size: int, done: Done) -> None:
        self._disk.offload(lambda: self._reserve(size), self._pinned(done))

    def _reserve(self, size: int) -> None:
        if _fallocate is None:
            return
        with complaints(f"cannot reserve room for {self._where}"), self._borrowed() as fd:
            if _fallocate(fd, _KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size)):
                code = ctypes.get_errno()
                if code not in _NO_NOWAIT:  # some file systems cannot do this either
                    raise OSError(code, os.strerror(code))

    def sync(self, done: Done) -> None:
        self._disk.offload(self.sync_now, self._pinned(done))

    def sync_now(self) -> None:
        self.unsynced = False  # later appends are not covered
        size = self.size
        with complaints(f"cannot sync {self._where}"), self._borrowed() as fd:
            os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)
            if not self._name_synced:
                self._disk.sync_name(self._where)
                self._name_synced = True
        found = self._look_at_size()
        # The loop may have truncated the file meanwhile: then `size` is smaller now.
        if found < min(size, self.size):
            raise self._shorter(found, size)

    def verify(self, size: int) -> None:
        found = self._look_at_size()
        if found < size:
            raise self._shorter(found, size)

    def _look_at_size(self) -> int:
        """Return the size of the file; raise FileLost if it is longer than what was written."""
        edits = self._edits
        found = self._look().st_size
        own_size = self.size
        # An append or a truncation of the loop may run meanwhile: then the next check decides.
        is_idle = edits == self._edits and edits % 2 == 0 and self._cuts == 0
        if found > own_size and is_idle:
            raise self._longer(found, own_size)
        return found

    def _look(self) -> os.stat_result:
        """Return the stat result of the file. Raise FileLost if its name stands for no file or for
        another one."""
        try:
            with complaints(f"cannot look at {self._where}"):
                facts = os.stat(self._where)
        except FileLost:
            what = "it was removed or renamed from outside"
            raise FileLost(f"{self._where} is gone: {what}") from None
        if (facts.st_dev, facts.st_ino) != self._identity:
            raise FileLost(f"{self._where} is another file: it was replaced from outside")
        return facts

    def _shorter(self, found: int, size: int) -> FileLost:
        return FileLost(
            f"{self._where} has only {found} of its {size} bytes: it was cut from outside"
        )

    def _longer(self, found: int, size: int) -> FileLost:
        return FileLost(
            f"{self._where} has {found} bytes, and {size} were written: another process has"
            f" appended to it. Cutting it to {size} bytes repairs it"
        )

    def close(self) -> None:
        self._closed = True
