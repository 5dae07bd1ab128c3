"""The outside of a node: time, disk, network, workers, randomness.

`real/` implements it with the operating system, `testing/sim/` with a seed. Nothing else in a node
reads a clock, opens a file or touches a socket. Calls that take `done` work off the loop and call
back on it. Calls that end in `_now` wait, and are for start and stop only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
# None on success, else the disk's error.
Done: TypeAlias = Callable[["DiskFailed | None"], None]


class DiskFailed(Exception):
    """The disk failed or returned wrong data. Its directory must stop serving."""


class DiskFull(DiskFailed):
    """No room left. Nothing of the write remains; reads and deletions continue."""


class TooManyFiles(DiskFailed):
    """This process may open no more files (ulimit -n). The disk itself is fine."""


class FileLost(DiskFailed):
    """Another process removed, cut or extended a file, or removed its directory. The disk itself
    is fine: its other files can be used."""


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
        """Call once, on the loop, when the monotonic clock reaches `mono_ms`."""
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
        """Return the path relative to the root of its Disk."""
        ...

    @property
    def size(self) -> int: ...

    def append(self, parts: Sequence[Buffer]) -> None:
        """Append all parts in one gathered write, or none: on failure the file is cut back. If
        another process has cut the file or appended to it, raise FileLost."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return bytes from memory, fewer only at the end of the file; raise Cold for others."""
        ...

    def probe(self, position: int, size: int) -> None:
        """Raise Cold if sending this range would wait for the disk; costs far less than a read."""
        ...

    def warm(self, position: int, size: int, done: Done) -> None:
        """Bring a range into memory."""
        ...

    def read_now(self, position: int, size: int) -> bytes: ...

    def truncate(self, size: int, done: Done) -> None:
        """Cut the file; `size` is the new length at once, and reads beyond it fail."""
        ...

    def truncate_now(self, size: int) -> None: ...

    def reserve(self, size: int, done: Done) -> None:
        """Preallocate space for a file of this size, where the file system can. The content stays;
        the next truncation frees unused space."""
        ...

    def sync(self, done: Done) -> None:
        """Make earlier appends durable, and the file's own name. If another process has removed,
        cut or extended the file, `done` gets FileLost: a start would not find these bytes."""
        ...

    def sync_now(self) -> None: ...

    def verify(self, size: int) -> None:
        """Raise FileLost unless the file still has its name and at least `size` bytes, and none
        beyond its own end. Waits for the disk; on any thread."""
        ...

    def park(self) -> None:
        """Give the file's descriptor back until its next use."""
        ...

    def hold(self) -> object:
        """Return an object that keeps the file sendable while it exists, even if the file is
        parked, renamed or removed. None if there is nothing to hold. May raise DiskFailed."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """One directory tree. Paths are relative to its root and use '/'."""

    @property
    def root(self) -> str:
        """Return the name of this disk in messages: an absolute path on a real disk."""
        ...

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file. Raise FileNotFoundError if the file is missing and `create` is false,
        FileLost if its directory is missing."""
        ...

    def list(self, path: str = "") -> list[str]:
        """Return the names in a directory, sorted; raise FileLost if it is missing."""
        ...

    def exists(self, path: str) -> bool: ...
    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Return the bytes of a file that need not be open; raise FileLost if it is missing."""
        ...

    def modified_ms(self, path: str) -> int:
        """Return the time of the last write to a file, by the wall clock; FileLost as `size`."""
        ...

    def free_bytes(self) -> int: ...
    def total_bytes(self) -> int: ...

    def sync_files(self, files: Sequence[File], done: Done) -> None:
        """Make the appends to all of these durable; a few threads share the work. After FileLost
        all but the removed or cut files are durable."""
        ...

    def offload_all(self, works: Sequence[Callable[[], None]], done: Done) -> None:
        """Run works that wait for this disk; a few threads share them. The works own their objects
        until `done`, which receives the first failure."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory at once, cheaply; its name becomes durable with the first sync of a file
        in it."""
        ...

    def replace(self, path: str, data: bytes | Callable[[], bytes], done: Done) -> None:
        """Write a small file atomically: a temporary file, synced, renamed, directory synced. A
        function for `data` is called off the loop."""
        ...

    def replace_now(self, path: str, data: bytes) -> None: ...

    def put_now(self, path: str, data: bytes) -> None:
        """Write a small file atomically, but durable only after `sync_everything_now`."""
        ...

    def remove_leftovers_now(self) -> None:
        """Remove temporary files of a killed process in the root, before the first write."""
        ...

    def sync_everything_now(self) -> None:
        """Make all earlier writes durable with one barrier, instead of a sync per file."""
        ...

    def rename(self, source: str, target: str, done: Done) -> None:
        """Rename atomically, with the directory synced. Open files stay usable."""
        ...

    def rename_now(self, source: str, target: str) -> None: ...

    def rename_all_now(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Rename files of one directory in this order, with one sync: after a crash a prefix of
        them is renamed."""
        ...

    def remove(self, path: str, done: Done) -> None:
        """Remove a file or a whole directory; do nothing if it is missing."""
        ...

    def remove_now(self, path: str) -> None: ...

    def lock(self, path: str) -> bool:
        """Take the lock file for the life of this process; False if another holds it. Makes the
        root if it is missing."""
        ...

    def unlock(self) -> None: ...


class FileRange:
    """A range of a file that leaves by sendfile. It keeps the file open until sent, because the
    file may be deleted or replaced meanwhile."""

    __slots__ = ("file", "held", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.held = file.hold()
        self.position = position
        self.size = size

    def after(self, sent: int) -> "FileRange":
        """Return the rest after so many sent bytes."""
        rest = FileRange.__new__(FileRange)  # keep the hold: the name may be gone by now
        rest.file, rest.held = self.file, self.held
        rest.position, rest.size = self.position + sent, self.size - sent
        return rest


Part: TypeAlias = Buffer | FileRange


class Receiver(Protocol):
    """The node's side of one connection."""

    @property
    def room(self) -> memoryview | None:
        """Return the buffer for the next bytes, while a large frame is incomplete."""
        ...

    def filled(self, size: int) -> None:
        """Note that so many bytes were put into `room`."""
        ...

    def received(self, data: memoryview) -> None:
        """Handle bytes from the peer, if there was no `room`; valid until the end of this turn."""
        ...

    def sent(self) -> None:
        """Note that everything given to `send` has left."""
        ...

    def closed(self) -> None:
        """Note that the connection is gone; no further call follows."""
        ...


class Peer(Protocol):
    """The other end of one connection."""

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def identity(self) -> bytes | None:
        """Return the certificate (DER) that the other side has shown; None without one."""
        ...

    @property
    def unsent_bytes(self) -> int: ...

    def hand_over(self, receiver: Receiver) -> None:
        """Give everything from now on to another receiver: a login is over."""
        ...

    def send(self, parts: Sequence[Part]) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...

    def has_ended(self) -> bool:
        """Return whether the other side has ended its sending and no byte of it is unread. During
        a pause the end is not reported otherwise."""
        ...

    def finish(self) -> None:
        """Announce the end of sending and discard further input. The connection closes when the
        other side has read everything and closes too, or at the next `close`."""
        ...

    def close(self) -> None:
        """Drop the connection now; `closed` follows on a later turn."""
        ...


class Tuning(NamedTuple):
    """Socket options; None is the default of the operating system."""

    backlog: int | None = None  # connections that may wait to be accepted
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of a listener or of outbound connections, with the contents of its stores as PEM."""

    identity: str = field(default="", repr=False)  # private key, certificate and its signers
    key_password: str | None = field(default=None, repr=False)
    trusted: str | None = None  # certificates; None for the authorities of the system
    versions: tuple[str, str] = ("TLSv1.2", "TLSv1.3")  # lowest and highest
    ciphers: str = ""  # those of TLS 1.2, in OpenSSL's words; empty for its own choice
    client_auth: str = "none"  # of a listener: none, requested or required
    check_host: bool = True  # of outbound connections
    trusts_itself: bool = False  # the peers are nodes that show certificates of the same authority


class TlsFailed(Exception):
    """Settings of TLS cannot be used; the text names the key and the cause."""


class Listening(Protocol):
    @property
    def address(self) -> tuple[str, int]: ...

    def pause(self) -> None:
        """Accept no connections: new ones wait."""
        ...

    def resume(self) -> None: ...

    def reload(self, tls: TlsSettings) -> None:
        """Use other settings of TLS for later connections: prepared ones."""
        ...

    def close(self) -> None: ...


# The address of a peer, and why its handshake has failed.
Rejected: TypeAlias = Callable[[tuple[str, int], str], None]


class Network(Protocol):
    def host_name(self) -> str:
        """Return a name under which others may find this machine."""
        ...

    def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Peer], Receiver],
        tuning: Tuning = ...,
        tls: TlsSettings | None = None,
        rejected: Rejected = ...,
    ) -> Listening:
        """Listen on an address; raise OSError if it is in use. Port 0 picks a free one. With TLS,
        `accept` follows the handshake; `rejected` gets the address of a peer whose handshake has
        failed, and the reason."""
        ...

    def connect(
        self,
        host: str,
        port: int,
        opened: Callable[[Peer], Receiver],
        failed: Callable[[str], None],
        timeout_ms: float = ...,
        tls: TlsSettings | None = None,
    ) -> "Connecting":
        """Connect to a name or an address. One of the callbacks follows on a later turn: `failed`
        gets the reason. With TLS, `opened` follows the handshake."""
        ...

    def prepare_tls(self, tls: TlsSettings, done: Callable[[TlsFailed | None], None]) -> None:
        """Try settings in a handshake with themselves, off the loop. Connections with prepared
        settings begin at once."""
        ...

    def prepare_tls_now(self, tls: TlsSettings) -> None:
        """Try settings; raise TlsFailed for unusable ones."""
        ...


class Connecting(Protocol):
    """An attempt to connect."""

    def cancel(self) -> None:
        """Give up the attempt: no callback follows. An ended attempt ignores the call."""
        ...


class Workers(Protocol):
    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Run long, stateless work off the loop; the result comes back on it."""
        ...

    def compute(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        """Run work that keeps a processor busy: `run` and the disks never wait for it."""
        ...

    def use(self, threads: int | None) -> None:
        """Limit the threads of `run`, and of each disk, from now on; None is
        the world's default."""
        ...


class ProcessDied(Exception):
    """The process of some work ended first. The work may be innocent: it may be repeated."""


class ChildTask(Protocol):
    """Work in another process."""

    def stop(self) -> None:
        """Cancel the work: no more messages come, and `done` follows soon, with any result, when
        nothing of the work runs any more."""
        ...


class ChildProcesses(Protocol):
    """Work too long for a thread: in another process, which shares only the disk."""

    def run(
        self,
        function: str,
        root: str,
        arguments: tuple[Any, ...],
        heard: Callable[[Any], None],
        done: Callable[[Any, BaseException | None], None],
    ) -> ChildTask:
        """Call `module:name` there as function(disk, *arguments, say, stop, clock=, pause=).

        `disk` is the tree at `root`; messages of `say` reach `heard` here in order; `stop()` is
        true when the work is cancelled; `clock()` counts seconds and `pause` waits. A process of
        the system also gets `resident_bytes=`, its memory. All values are pickled. ProcessDied if
        the process ended first.
        """
        ...


class Entropy(Protocol):
    def uuid(self) -> bytes:
        """Return 16 random bytes, in the form of a version-4 UUID."""
        ...

    def random_ms(self, low: int, high: int) -> int: ...


# The lateness of timers: the bounds between the counts of `ProcessStats.late_counts`.
LATE_BOUNDS_MS = (1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0)


class ProcessStats(NamedTuple):
    """Statistics of the process under a node; None for values that a world lacks."""

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
    worker_tasks: int | None = None  # running, or waiting for a thread


class World(Protocol):
    """Everything above, as one object for a node."""

    @property
    def clock(self) -> Clock: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def network(self) -> Network: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def child_processes(self) -> ChildProcesses: ...
    @property
    def entropy(self) -> Entropy: ...

    def disk(self, root: str) -> Disk:
        """Return the directory tree at `root`, without touching it yet."""
        ...

    def process_stats(self) -> ProcessStats:
        """Return the statistics; on the loop only."""
        ...

    def read_file(self, path: str) -> bytes:
        """Return the content of a small file of the operator, by its path on this machine. Raise
        OSError. Waits for the disk; on any thread."""
        ...

    def fetch(self, url: str, bytes_max: int, timeout_ms: float) -> bytes:
        """Return the content at an http or https URL. Raise OSError. Waits for the network; on any
        thread."""
        ...

    def release_memory(self) -> None:
        """Return freed memory of this process to the system, off the loop."""
        ...
