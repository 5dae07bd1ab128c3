"""What a node may ask of the outside: time, disk, network, workers, chance.

`real/` answers with the operating system, `testing/sim/` with a seed. Nothing else in a node
reads a clock, opens a file or touches a socket. Calls that take `done` do their work off the
loop and call back on it; calls that end in `_now` wait, and are for start and stop only.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
# None when the work succeeded; the disk's complaint otherwise.
Done: TypeAlias = Callable[["DiskFailed | None"], None]


class DiskFailed(Exception):
    """The disk refused or lied. The directory it happened in must stop serving."""


class DiskFull(DiskFailed):
    """No room left. Nothing of the write remains; reads and deletions go on."""


class TooManyFiles(DiskFailed):
    """This process may open no more files (ulimit -n). The disk itself is fine."""


class FileLost(DiskFailed):
    """A file or its directory was removed or cut by somebody else. The disk itself is fine: what
    else is on it can be used."""


class Cold(Exception):
    """The bytes are not in memory: call `file.warm(position, size, done)`, then ask again."""

    def __init__(self, file: "File", position: int, size: int) -> None:
        super().__init__(f"{file.path} [{position}, +{size})")
        self.file = file
        self.position = position
        self.size = size


class Clock(Protocol):
    def wall_ms(self) -> int: ...
    def mono_ms(self) -> float: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Timers(Protocol):
    def at(self, mono_ms: float, call: Callable[[], None]) -> Timer:
        """Call once, on the loop, when the monotonic clock has reached `mono_ms`."""
        ...

    def soon(self, call: Callable[[], None]) -> None:
        """Call on the next turn, after the events that are already waiting."""
        ...

    def after_turn(self, call: Callable[[], None]) -> None:
        """Call once when the events of this turn are handled, before the loop sleeps."""
        ...


class File(Protocol):
    """An append-only file. Offsets count bytes from its start."""

    @property
    def path(self) -> str:
        """Relative to the root of its Disk."""
        ...

    @property
    def size(self) -> int: ...

    def append(self, parts: Sequence[Buffer]) -> None:
        """All parts, in one gathered write; all or nothing: on failure the file is cut back."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Bytes that are in memory, fewer only at the end of the file; else raises Cold."""
        ...

    def probe(self, position: int, size: int) -> None:
        """Raise Cold if sending this range would wait for the disk; costs far less than a read."""
        ...

    def warm(self, position: int, size: int, done: Done) -> None:
        """Bring a range into memory."""
        ...

    def read_now(self, position: int, size: int) -> bytes: ...

    def truncate(self, size: int, done: Done) -> None:
        """Cut the file; `size` tells the new length at once, reads beyond it fail."""
        ...

    def truncate_now(self, size: int) -> None: ...

    def reserve(self, size: int, done: Done) -> None:
        """Take the room that a file of this size needs, where the file system can do that. Nothing
        of the file changes; what is not used is given back when it is next truncated."""
        ...

    def sync(self, done: Done) -> None:
        """Make what was appended before this call durable, and the file's own name with it.
        FileLost if the file was removed or cut: no start would find the synced bytes."""
        ...

    def sync_now(self) -> None: ...

    def verify(self, size: int) -> None:
        """Raise FileLost unless the file still has its name and at least `size` bytes. Waits for
        the disk; on any thread."""
        ...

    def park(self) -> None:
        """Nobody needs it soon: what the file holds of the system is given back until then."""
        ...

    def hold(self) -> object:
        """As long as somebody has what this gives, the file can be sent from, though it is parked,
        or has another name, or none. None where there is nothing to hold. May raise DiskFailed."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One directory tree. Paths are relative to its root and use '/'."""

    @property
    def root(self) -> str:
        """What a person would call this place (an absolute path on a real disk)."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file. FileNotFoundError if it is not there and `create` was not said; FileLost
        if its directory is not there."""
        ...

    def list(self, path: str = "") -> list[str]:
        """Names in a directory, sorted; FileLost if there is none."""
        ...

    def exists(self, path: str) -> bool: ...
    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Bytes of a file that need not be open; FileLost if it is not there."""
        ...

    def modified_ms(self, path: str) -> int:
        """When something was last written to a file, by the wall clock; FileLost as `size`."""
        ...

    def free_bytes(self) -> int: ...
    def total_bytes(self) -> int: ...

    def sync_files(self, files: Sequence[File], done: Done) -> None:
        """Make what was appended to all of these durable; a few threads share the work. After
        FileLost all but those that were removed or cut are."""
        ...

    def offload_all(self, works: Sequence[Callable[[], None]], done: Done) -> None:
        """Run pieces of work that wait for this disk; a few threads share them. What they touch
        is theirs alone until `done`, which hears of the first failure."""
        ...

    def make_directory(self, path: str) -> None:
        """Cheap and immediate; its name becomes durable with the first sync of a file in it."""
        ...

    def replace(self, path: str, data: bytes | Callable[[], bytes], done: Done) -> None:
        """Write a small file atomically: aside, synced, renamed over, directory synced. What takes
        a while to put together may be a function, which is called off the loop."""
        ...

    def replace_now(self, path: str, data: bytes) -> None: ...

    def put_now(self, path: str, data: bytes) -> None:
        """Write a small file atomically, but durable only after `sync_everything_now`."""
        ...

    def remove_leftovers_now(self) -> None:
        """Remove what a killed process left half written in the root, before anything is."""
        ...

    def sync_everything_now(self) -> None:
        """One barrier instead of a sync per file: all that was written before is durable."""
        ...

    def rename(self, source: str, target: str, done: Done) -> None:
        """Atomic, directory synced. Open files keep working."""
        ...

    def rename_now(self, source: str, target: str) -> None: ...

    def rename_all_now(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Files of one directory from these names to those, in this order, with one sync: a crash
        leaves the first of them renamed and the others not."""
        ...

    def remove(self, path: str, done: Done) -> None:
        """A file or a whole directory; nothing happens if it is gone already."""
        ...

    def remove_now(self, path: str) -> None: ...

    def lock(self, path: str) -> bool:
        """Take the lock file for the life of this process; False if another holds it. Makes the
        root if it is missing."""
        ...

    def unlock(self) -> None: ...


class FileRange:
    """A piece of a file that leaves by sendfile. Keeps the file open until it is sent: it may be
    deleted or replaced meanwhile, and its answer may wait behind others."""

    __slots__ = ("file", "held", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.held = file.hold()
        self.position = position
        self.size = size

    def after(self, sent: int) -> "FileRange":
        """What is left when so many bytes have left."""
        rest = FileRange.__new__(FileRange)  # what is held goes over: the name may be lost by now
        rest.file, rest.held = self.file, self.held
        rest.position, rest.size = self.position + sent, self.size - sent
        return rest


Part: TypeAlias = Buffer | FileRange


class Receiver(Protocol):
    """The node's side of one connection."""

    @property
    def room(self) -> memoryview | None:
        """Where the next bytes should land, while a large frame is incomplete."""
        ...

    def filled(self, size: int) -> None:
        """So many bytes were put into `room`."""
        ...

    def received(self, data: memoryview) -> None:
        """Bytes from the peer, when there was no `room`; good until the end of this turn."""
        ...

    def sent(self) -> None:
        """Everything handed to `send` has left."""
        ...

    def closed(self) -> None:
        """The connection is gone; no further call follows."""
        ...


class Peer(Protocol):
    """The other end of one connection."""

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def unsent_bytes(self) -> int: ...

    def send(self, parts: Sequence[Part]) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def finish(self) -> None:
        """Say that nothing more comes; what still arrives is thrown away. The connection closes
        when the other side has read everything and closes too, or at the next `close`."""
        ...

    def close(self) -> None:
        """Drop it now; `closed` follows on a later turn."""
        ...


class Tuning(NamedTuple):
    """How sockets are set up; None is what the operating system thinks best."""

    backlog: int | None = None  # connections that may wait to be accepted
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None


class Listening(Protocol):
    @property
    def address(self) -> tuple[str, int]: ...

    def pause(self) -> None:
        """Accept nobody: who comes waits."""
        ...

    def resume(self) -> None: ...
    def close(self) -> None: ...


class Network(Protocol):
    def host_name(self) -> str:
        """A name under which others may find this machine."""
        ...

    def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Peer], Receiver],
        tuning: Tuning = ...,
    ) -> Listening:
        """OSError if the address is taken. Port 0 picks a free one."""
        ...

    def connect(
        self, host: str, port: int, opened: Callable[[Peer], Receiver], failed: Callable[[], None]
    ) -> None: ...


class Workers(Protocol):
    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Long work without state of its own, off the loop; the result comes back on it."""
        ...

    def compute(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        """The same for work that keeps a processor busy: whatever comes of it, `run` and the disks
        do not wait for it."""
        ...

    def use(self, threads: int | None) -> None:
        """So many at a time of `run`, and for each disk, from now on; None is what the world thinks
        best."""
        ...


class ProcessDied(Exception):
    """The process that did some work apart ended before the work did. That need not be the work's
    fault: it may be asked for again."""


class Errand(Protocol):
    """Work that is under way in another process."""

    def stop(self) -> None:
        """Let it end early: nothing more is heard of it, and `done` follows soon, with whatever
        came of it, when nothing of it runs any more."""
        ...


class Apart(Protocol):
    """Work that is too long for a thread: in another process, which shares only the disk."""

    def run(
        self,
        function: str,
        root: str,
        arguments: tuple[Any, ...],
        heard: Callable[[Any], None],
        done: Callable[[Any, BaseException | None], None],
    ) -> Errand:
        """Call `module:name` there as function(disk, *arguments, say, stop, clock=, pause=): `disk`
        is the tree at `root`, what it says is heard here in order, `stop()` tells it to give up,
        `clock()` counts seconds and `pause` waits for some. A process of the system is told
        `resident_bytes=` as well: what it has in memory. Everything that travels is pickled.
        ProcessDied if the process ended first."""
        ...


class Entropy(Protocol):
    def uuid(self) -> bytes:
        """16 random bytes, shaped as a version-4 UUID."""
        ...

    def random_ms(self, low: int, high: int) -> int: ...


# How late a timer may run: the bounds between which `Vitals.late_counts` counts.
LATE_BOUNDS_MS = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0)


class Vitals(NamedTuple):
    """How the process under a node is; None where a world has no such thing."""

    started_ms: int  # wall clock
    turns: int
    cpu_seconds: float | None = None  # of all threads
    loop_cpu_seconds: float | None = None
    resident_bytes: int | None = None
    virtual_bytes: int | None = None
    open_files: int | None = None
    files_max: int | None = None
    late_counts: tuple[int, ...] = ()  # one more than there are bounds
    late_ms_total: float = 0.0
    worker_threads: int | None = None
    worker_tasks: int | None = None  # that run, or wait for a thread


class World(Protocol):
    """Everything above, as one thing to hand to a node."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def network(self) -> Network: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def apart(self) -> Apart: ...
    @property
    def entropy(self) -> Entropy: ...

    def disk(self, root: str) -> Disk:
        """The directory tree at `root`; nothing is touched yet."""
        ...

    def vitals(self) -> Vitals:
        """To be asked on the loop."""
        ...

    def release_memory(self) -> None:
        """Give memory that this process has freed back to the system, off the loop."""
        ...
