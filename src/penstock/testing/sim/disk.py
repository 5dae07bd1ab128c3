"""A disk in memory, by a seed: unsynced bytes may be lost or torn, unsynced names missing.

Two states exist side by side: the one that the running node sees, and the durable one. `crash()`
chooses between them at random, by sectors of 512 bytes, and returns the disk for the next start.
Without faults it is the plain in-memory disk of an embedded cluster (`MemoryDisk`).
"""

import random
from collections import deque
from collections.abc import Callable, Sequence

from penstock.world import Buffer, Cold, DiskFailed, DiskFull, Done, File, FileLost

SECTOR_BYTES = 512
ROT_FROM_END = 8  # in the value of the last record
_PAGE_BYTES = 4096
_FREE_BYTES = 1 << 40


class _CutShort(Exception):
    """The process died in the middle of this operation."""


class _Node:
    """The content behind a name: the current and the durable part."""

    __slots__ = ("cut", "data", "durable", "lost", "modified_ms", "reserved", "warm")

    def __init__(self, data: bytes = b"", modified_ms: int = 0) -> None:
        self.data = bytearray(data)
        self.modified_ms = modified_ms
        self.reserved = 0  # preallocated bytes
        self.lost = False  # removed, renamed or cut from outside
        self.durable = bytearray(data)
        # `data` and `durable` agree up to here, or up to the shorter of them.
        self.cut = len(data)
        self.warm: set[int] = set()

    def survive(self, size: int) -> None:
        """Make the first `size` bytes durable. Syncs may end in any order: durable bytes stay
        durable."""
        agreed = min(self.cut, len(self.durable), len(self.data))
        size = max(size, agreed)
        self.durable[agreed:] = self.data[agreed:size]
        self.cut = min(size, len(self.data))


class SimFile:
    """An open file of a SimDisk."""

    __slots__ = ("_disk", "_node", "path", "size")

    def __init__(self, disk: "SimDisk", path: str, node: _Node) -> None:
        self._disk = disk
        self._node = node
        self.path = path
        self.size = len(node.data)

    def append(self, parts: Sequence[Buffer]) -> None:
        data = self._node.data
        start = len(data)
        if start != self.size:
            raise FileLost(f"{self.path} was cut or extended from outside")
        if self._disk.faults:
            self._disk.before_write(self.path)
            if self._disk.cold:
                size = sum(len(part) for part in parts)
                self._node.warm.update(
                    range(start // _PAGE_BYTES, (start + size) // _PAGE_BYTES + 1)
                )
        for part in parts:
            data += part
        self.size = len(data)
        self._node.modified_ms = self._disk.now_ms()
        self._disk.written(self.path, self.size)

    def read(self, position: int, size: int) -> bytes:
        if self._disk.cold:
            self.probe(position, size)
        found = bytes(self._node.data[position : min(position + size, self.size)])
        return self._disk.decayed(self.path, position, found) if self._disk.rotten else found

    def probe(self, position: int, size: int) -> None:
        if not self._disk.cold:
            return
        end = min(position + size, len(self._node.data))
        pages = range(position // _PAGE_BYTES, -(-end // _PAGE_BYTES))
        if any(page not in self._node.warm for page in pages):
            raise Cold(self, position, size)

    def warm(self, position: int, size: int, done: Done) -> None:
        def work() -> None:
            last = (position + size) // _PAGE_BYTES
            self._node.warm.update(range(position // _PAGE_BYTES, last + 1))

        self._disk.later(work, done)

    def read_now(self, position: int, size: int) -> bytes:
        return bytes(self._node.data[position : position + size])

    def truncate(self, size: int, done: Done) -> None:
        lost = self._cut(size)

        def work() -> None:
            if lost is not None:
                raise lost

        self._disk.later(work, done)

    def truncate_now(self, size: int) -> None:
        lost = self._cut(size)
        if lost is not None:
            raise lost

    def reserve(self, size: int, done: Done) -> None:
        def work() -> None:
            self._node.reserved = size

        self._disk.later(work, done)

    def _cut(self, size: int) -> FileLost | None:
        """Cut the file; return the failure if it is shorter already."""
        lost = None
        if len(self._node.data) < size:
            lost = FileLost(f"{self.path} was cut from outside")
        self._node.reserved = 0
        del self._node.data[size:]
        self._node.cut = min(self._node.cut, size)
        self.size = min(self.size, size)
        return lost

    def sync(self, done: Done) -> None:
        size = len(self._node.data)
        self._disk.later(lambda: self.sync_to(size), done)

    def sync_now(self) -> None:
        self.sync_to(len(self._node.data))

    def sync_to(self, size: int) -> None:
        """Make the first `size` bytes, as they are now, durable."""
        if not self._disk.faults:
            return
        self._disk.before_sync(self.path)
        self._node.survive(size)
        self._disk.directory_survives(self.path)
        if self._node.lost or not self._disk.names(self.path, self._node):
            raise FileLost(f"{self.path} was removed, renamed or cut from outside")
        self._check_extended()

    def verify(self, size: int) -> None:
        if not self._disk.names(self.path, self._node):
            raise FileLost(f"{self.path} was removed or replaced from outside")
        if len(self._node.data) < size:
            raise FileLost(f"{self.path} was cut from outside")
        self._check_extended()

    def _check_extended(self) -> None:
        if len(self._node.data) > self.size:
            raise FileLost(f"{self.path} was extended from outside")

    def park(self) -> None:
        pass

    def hold(self) -> None:
        """Return None: the file lives as long as a reference to it."""

    def close(self) -> None:
        pass


class SimDisk:
    """A disk whose `seed` decides the result of a crash; equal calls and seeds give equal disks.
    Work that calls back waits for `run_callbacks`, or for `soon` if given."""

    def __init__(
        self,
        seed: int = 0,
        *,
        root: str = "memory",
        faults: bool = True,
        cold: bool = False,
        soon: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self.free = _FREE_BYTES  # the result of `free_bytes`
        self.is_full = False  # writes fail until it has room again
        self.root = root
        self.faults = faults
        self.cold = cold
        self._random = random.Random(seed)
        self._soon = soon
        self._names: dict[str, _Node] = {}
        self._durable_names: dict[str, _Node] = {}
        self._unsynced_names: dict[str, dict[str, None]] = {}  # by directory
        self._directories: dict[str, None] = {"": None}
        self._waiting: deque[tuple[Callable[[], None], Done]] = deque()
        self._writes_left = -1
        self._writes_within = ""
        self._write_failure: DiskFailed = DiskFailed("injected")
        self._syncs_left = -1
        self.rotten: dict[str, int] = {}  # positions of bytes that a read finds changed
        self._rots_within = ""
        self._locked: set[str] = set()
        self._dying: random.Random | None = None  # decides whether work of many steps is finished
        self.now_ms: Callable[[], int] = lambda: 0  # the wall clock; a world sets its own

    # ---- faults

    def fail_write(self, after: int, *, full: bool = False, within: str = "") -> None:
        """Let `after` more appends through, fail the next one, once; of files whose path begins
        with `within`."""
        self._writes_left = after
        self._writes_within = within
        self._write_failure = DiskFull("injected") if full else DiskFailed("injected")

    def fail_sync(self, after: int) -> None:
        """Let `after` more syncs through, fail the next one, once."""
        self._syncs_left = after

    def before_write(self, path: str) -> None:
        if self.is_full:
            raise DiskFull(f"injected: no room for {path}")
        if self._writes_left >= 0 and path.startswith(self._writes_within):
            self._writes_left -= 1
            if self._writes_left < 0:
                raise type(self._write_failure)(f"injected: {path}")

    def before_sync(self, path: str) -> None:
        if self._syncs_left >= 0:
            self._syncs_left -= 1
            if self._syncs_left < 0:
                raise DiskFailed(f"injected: {path}")

    def rot_next(self, within: str) -> None:
        """Let reads find a byte near the end of the next append changed, of files whose path begins
        with `within`, until `end_rot`."""
        self._rots_within = within

    def end_rot(self) -> None:
        """Let all reads find what was written."""
        self._rots_within = ""
        self.rotten.clear()

    def written(self, path: str, size: int) -> None:
        if self._rots_within and path.startswith(self._rots_within):
            self._rots_within = ""
            self.rotten[path] = max(0, size - ROT_FROM_END)

    def decayed(self, path: str, position: int, data: bytes) -> bytes:
        """Return data that was read from a position, with the rot in it."""
        at = self.rotten.get(path, -1) - position
        if not 0 <= at < len(data):
            return data
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def corrupt(self, path: str, position: int, data: bytes) -> None:
        """Change durable bytes."""
        node = self._names[path]
        node.data[position : position + len(data)] = data
        node.cut = min(node.cut, position)
        node.survive(len(node.data))

    def cut(self, path: str, size: int) -> None:
        """Cut a file from outside; open files see it."""
        node = self._names[path]
        del node.data[size:]
        node.survive(len(node.data))
        node.lost = True

    def extend(self, path: str, data: bytes) -> None:
        """Append to a file from outside; open files do not count these bytes."""
        node = self._names[path]
        node.data += data
        node.survive(len(node.data))

    def take(self, path: str) -> bytes:
        """Remove a file from outside; open files continue without a name."""
        data = bytes(self._names[path].data)
        self.remove_now(path)
        return data

    def names(self, path: str, node: _Node) -> bool:
        """Return whether a name belongs to this content."""
        return self._names.get(path) is node

    def crash(self, seed: int | None = None) -> "SimDisk":
        """Return the disk after a power loss: unsynced names and sectors survive at random."""
        dice = self._random if seed is None else random.Random(seed)
        after = SimDisk(dice.randrange(2**32), root=self.root, faults=self.faults, cold=self.cold)
        self._interrupt(dice)
        survivors = dict(self._durable_names)
        # Names in one directory are lost from the newest back, as journals keep their order.
        lost: set[str] = set()
        for path, node in self._names.items():
            if path in survivors:
                continue
            directory = path.rpartition("/")[0]
            if directory in lost or dice.random() < 0.3:
                lost.add(directory)
            else:
                survivors[path] = node
        for path in sorted(survivors):
            survivor = survivors[path]
            after.put(path, self._torn(survivor, dice), survivor.modified_ms)
        for path in self._directories:
            if dice.random() < 0.5:
                after.make_directory(path)
        return after

    def kill(self) -> None:
        """Kill the process, not the machine: only pending work is completed at random."""
        self._interrupt(self._random)
        self.unlock()

    def _interrupt(self, dice: random.Random) -> None:
        while self._waiting:  # each may have happened, in order, or not
            work, _ = self._waiting.popleft()
            if dice.random() < 0.5 or not self.dies_with(work, dice):
                self._waiting.clear()
                return

    def dies_with(self, work: Callable[[], None], dice: random.Random) -> bool:
        """Do the work of a dead process; return False if it was not finished."""
        self._dying = dice
        try:
            work()
        except _CutShort:
            return False
        except DiskFailed:
            pass
        finally:
            self._dying = None
        return True

    def _torn(self, node: _Node, dice: random.Random) -> bytes:
        agreed = min(node.cut, len(node.durable), len(node.data))
        sizes = (len(node.durable), len(node.data))
        size = dice.choice((*sizes, dice.randint(min(sizes), max(sizes))))
        result = bytearray(size)
        result[:agreed] = node.data[:agreed]
        sector = agreed - agreed % SECTOR_BYTES
        while sector < size:
            start, end = max(sector, agreed), min(sector + SECTOR_BYTES, size)
            sources = [node.data[start:end], node.data[start:end], node.durable[start:end], b""]
            chosen = bytes(dice.choice(sources))
            if dice.random() < 0.1:
                chosen = dice.randbytes(end - start)
            result[start:end] = chosen.ljust(end - start, b"\0")
            sector += SECTOR_BYTES
        return bytes(result)

    def put(self, path: str, data: bytes, modified_ms: int = 0) -> None:
        """Add a durable file."""
        node = _Node(data, modified_ms)
        self._names[path] = self._durable_names[path] = node
        self._make_parents(path)

    def content(self, path: str) -> bytes:
        """Return the bytes of a file as the node sees them."""
        return bytes(self._names[path].data)

    def files(self) -> dict[str, bytes]:
        """Return all files, by path."""
        return {path: bytes(node.data) for path, node in sorted(self._names.items())}

    # ---- callbacks

    def use_loop(self, soon: Callable[[Callable[[], None]], None]) -> None:
        """Run callbacks on another loop from now on, after a restart of the node."""
        self._soon = soon
        self._waiting.clear()

    def later(self, work: Callable[[], None], done: Done) -> None:
        self._waiting.append((work, done))
        if self._soon is not None:
            self._soon(self.run_one)

    def run_callbacks(self) -> int:
        """Do all pending work, and its consequences; return the number of works."""
        count = 0
        while self._waiting:
            self.run_one()
            count += 1
        return count

    def run_one(self) -> None:
        if not self._waiting:
            return
        work, done = self._waiting.popleft()
        try:
            work()
        except DiskFailed as failure:
            done(failure)
        else:
            done(None)

    # ---- world.Disk

    def open(self, path: str, *, create: bool = False) -> SimFile:
        node = self._names.get(path)
        if node is None:
            if not create:
                raise FileNotFoundError(path)
            if path.rpartition("/")[0] not in self._directories:
                raise FileLost(f"{path}: no such directory")
            node = self._new_file(path)
        return SimFile(self, path, node)

    def _new_file(self, path: str) -> _Node:
        node = self._names[path] = _Node()
        if self.faults:
            self._unsynced_names.setdefault(path.rpartition("/")[0], {})[path] = None
        return node

    def list(self, path: str = "") -> "list[str]":
        if path not in self._directories:
            raise FileLost(f"{path}: no such directory")
        prefix = f"{path}/" if path else ""
        inside = [name for name in (*self._names, *self._directories) if name.startswith(prefix)]
        return sorted({name[len(prefix) :].partition("/")[0] for name in inside} - {""})

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def is_directory(self, path: str) -> bool:
        return path in self._directories

    def size(self, path: str) -> int:
        node = self._names.get(path)
        if node is None:
            raise FileLost(f"{path}: no such file")
        return len(node.data)

    def modified_ms(self, path: str) -> int:
        node = self._names.get(path)
        if node is None:
            raise FileLost(f"{path}: no such file")
        return node.modified_ms

    def reserved_bytes(self, path: str) -> int:
        """Return the preallocated bytes."""
        return self._names[path].reserved

    def free_bytes(self) -> int:
        return self.free

    def total_bytes(self) -> int:
        return 2 * _FREE_BYTES

    def sync_files(self, files: Sequence[File], done: Done) -> None:
        def work() -> None:
            lost: FileLost | None = None
            for file, size in sizes:
                assert isinstance(file, SimFile), "a disk syncs its own files"
                try:
                    file.sync_to(size)
                except FileLost as failure:
                    lost = failure
            if lost is not None:
                raise lost

        sizes = [(file, file.size) for file in files]
        self.later(work, done)

    def offload_all(self, works: Sequence[Callable[[], None]], done: Done) -> None:
        def work() -> None:
            for each in works:
                each()

        self.later(work, done)

    def make_directory(self, path: str) -> None:
        self._directories[path] = None
        self._make_parents(path)

    def _make_parents(self, path: str) -> None:
        while path:
            path = path.rpartition("/")[0]
            self._directories[path] = None

    def replace(self, path: str, data: bytes | Callable[[], bytes], done: Done) -> None:
        self.later(lambda: self.replace_now(path, data() if callable(data) else data), done)

    def _check_parent(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        if parent and not self.is_directory(parent):
            raise FileLost(f"{parent}: no such directory")

    def replace_now(self, path: str, data: bytes) -> None:
        self._check_parent(path)
        if self.faults:
            self.before_write(path)
            self.before_sync(path)
        self._names[path] = self._durable_names[path] = _Node(data)
        self.directory_survives(path)

    def put_now(self, path: str, data: bytes) -> None:
        self._check_parent(path)
        if self.faults:
            self.before_write(path)
        self._new_file(path).data += data

    def remove_leftovers_now(self) -> None:
        """Do nothing: writes are atomic here."""

    def sync_everything_now(self) -> None:
        if not self.faults:
            return
        self.before_sync(self.root)
        for node in self._names.values():
            node.survive(len(node.data))
        self._durable_names = dict(self._names)
        self._unsynced_names.clear()

    def rename(self, source: str, target: str, done: Done) -> None:
        self.later(lambda: self.rename_now(source, target), done)

    def rename_now(self, source: str, target: str) -> None:
        if not self.exists(source):
            raise FileLost(f"{source} is not there")
        for path in [name for name in self._names if _within(name, source)]:
            node = self._names.pop(path)
            renamed = target + path[len(source) :]
            if renamed in self._names:
                self._names[renamed].lost = True
            self._names[renamed] = node
            # The new name is synced; an unsynced file keeps torn content.
            self._durable_names.pop(path, None)
            self._durable_names[renamed] = node
        for path in [name for name in self._directories if _within(name, source)]:
            del self._directories[path]
            self._directories[target + path[len(source) :]] = None
        self.directory_survives(target)

    def rename_all_now(self, pairs: Sequence[tuple[str, str]]) -> None:
        for source, target in pairs:
            if self._dying is not None and self._dying.random() < 0.2:
                raise _CutShort
            self.rename_now(source, target)

    def remove(self, path: str, done: Done) -> None:
        self.later(lambda: self.remove_now(path), done)

    def remove_now(self, path: str) -> None:
        if path not in self._directories:  # files contain no other files
            node = self._names.pop(path, None)
            if node is not None:
                node.lost = True
            self._durable_names.pop(path, None)
            return
        for name in [each for each in self._names if _within(each, path)]:
            self._names.pop(name).lost = True
            self._durable_names.pop(name, None)
        for name in [each for each in self._directories if _within(each, path)]:
            del self._directories[name]

    def directory_survives(self, path: str) -> None:
        """Make all names in a directory durable."""
        for name in self._unsynced_names.pop(path.rpartition("/")[0], ()):
            if name in self._names:
                self._durable_names[name] = self._names[name]

    def lock(self, path: str) -> bool:
        taken = path in self._locked
        self._locked.add(path)
        return not taken

    def unlock(self) -> None:
        self._locked.clear()


class MemoryDisk(SimDisk):
    """A disk that never fails and keeps everything while the process lives."""

    def __init__(
        self,
        *,
        root: str = "memory",
        soon: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        super().__init__(0, root=root, faults=False, soon=soon)


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
