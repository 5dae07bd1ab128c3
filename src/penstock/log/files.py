"""Open files of closed segments, and the disk work of a log off the loop.

A file that leaves the cache stays open, because a peer may still receive a range of it. Dropping
the last reference closes it.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TypeAlias

from penstock.world import Disk, DiskFailed, DiskFull, File, FileLost

OPEN_FILES_MAX = 256


class FileCache:
    """The most recently used files of closed segments; all logs of a directory share one cache."""

    def __init__(self, disk: Disk, limit: int = OPEN_FILES_MAX) -> None:
        self._disk = disk
        self._limit = limit
        self._files: OrderedDict[str, File] = OrderedDict()
        self._pinned: dict[str, File] = {}

    def __len__(self) -> int:
        return len(self._files)

    @property
    def disk(self) -> Disk:
        return self._disk

    def get(self, path: str) -> File:
        """Return the file; raise FileNotFoundError if there is none."""
        file = self._files.get(path)
        if file is not None:
            self._files.move_to_end(path)
            return file
        pinned = self._pinned.get(path)
        if pinned is not None:
            return pinned
        file = self._disk.open(path)
        self.put(path, file)
        return file

    def known(self, path: str) -> File | None:
        """Return the cached file of that name, or None."""
        return self._files.get(path)

    def put(self, path: str, file: File) -> None:
        self._files[path] = file
        if len(self._files) > self._limit:
            self._files.popitem(last=False)

    def drop(self, path: str) -> None:
        self._files.pop(path, None)

    def pin(self, path: str, file: File) -> None:
        """Serve `path` from this file, which is about to get that name."""
        self.drop(path)
        self._pinned[path] = file

    def unpin(self, path: str) -> None:
        """Stop serving `path` from the pinned file."""
        self._pinned.pop(path, None)

    def drop_within(self, directory: str) -> None:
        prefix = f"{directory}/"
        for path in [path for path in self._files if path.startswith(prefix)]:
            del self._files[path]


Step: TypeAlias = Callable[[Callable[[DiskFailed | None], None]], None]


class Chores:
    """Disk work in order: each step begins when the one before is durable.

    The order lets a restart conclude from one file that the earlier ones exist. A full disk stalls
    the steps until `retry`; any other failure ends them.
    """

    __slots__ = (
        "_current",
        "_disk",
        "_failed",
        "_running",
        "_steps",
        "_when_failed",
        "failure",
        "stalled",
    )

    def __init__(self, disk: Disk, failed: Callable[[DiskFailed], None] | None = None) -> None:
        self._disk = disk
        self._failed = failed
        self._steps: deque[Step] = deque()
        self._current: Step | None = None
        self._when_failed: Callable[[DiskFailed], None] | None = None
        self._running = False
        self.stalled = False
        self.failure: DiskFailed | None = None

    @property
    def busy(self) -> bool:
        return self._running

    def retry(self) -> None:
        """Continue after a full disk."""
        if self.stalled:
            self.stalled = False
            self._running = True
            self._next()

    def when_failed(self, call: Callable[[DiskFailed], None] | None) -> None:
        """Set the callback for a failure that ends all steps."""
        self._when_failed = call

    def end(self) -> None:
        """Drop all pending steps and ignore later failures: the log has lost its files."""
        self._steps.clear()
        self._failed = None
        if self._when_failed is not None:
            self._when_failed(FileLost("the log is gone"))

    def replace(self, path: str, data: bytes) -> None:
        self.add(lambda done: self._disk.replace(path, data, done))

    def remove(self, path: str) -> None:
        self.add(lambda done: self._disk.remove(path, done))

    def then(self, call: Callable[[], None]) -> None:
        """Call when everything added so far is durable."""

        def step(done: Callable[[DiskFailed | None], None]) -> None:
            call()
            done(None)

        self.add(step)

    def add(self, step: Step) -> None:
        self._steps.append(step)
        if not self._running and not self.stalled:
            self._running = True
            self._next()

    def _next(self) -> None:
        if not self._steps or self.failure is not None:
            self._running = False
            return
        self._current = self._steps.popleft()
        self._current(self._done)

    def _done(self, failure: DiskFailed | None) -> None:
        if isinstance(failure, DiskFull) and self._current is not None:
            self._steps.appendleft(self._current)
            self._running = False
            self.stalled = True
            return
        if failure is not None:
            self._fail(failure)
        self._next()

    def _fail(self, failure: DiskFailed) -> None:
        self.failure = failure
        self._steps.clear()
        if self._failed is not None:
            self._failed(failure)
        if self._when_failed is not None:
            self._when_failed(failure)
