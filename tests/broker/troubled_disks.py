"""Disks of a simulated node whose every call can fail, be done and reported failed, or be the last
one of a process; and disks that are away for a while."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from penstock.testing.sim.world import WorldDisk, WorldFile
from penstock.world import Buffer, DiskFailed, DiskFull, TooManyFiles

_CALLS = ("rename_now", "replace_now", "put_now", "remove_now", "make_directory", "list", "open")


class Died(BaseException):
    """The process is killed in the middle of a disk call."""


class Mode(Enum):
    NOT_DONE = "not done, once"
    DONE = "done, but reported failed, once"
    DEAD = "not done, nor anything after it"
    DONE_AND_DEAD = "done, but reported failed, and nothing after it"
    FULL = "not done for want of room, once"
    DONE_FULL = "done, but reported not to be for want of room, once"
    TOO_MANY = "not done, as too many files are open, once"
    KILLED = "the process dies before it"
    KILLED_AFTER = "the process dies after it"


_KINDS: dict[Mode, type[DiskFailed]] = {
    Mode.FULL: DiskFull,
    Mode.DONE_FULL: DiskFull,
    Mode.TOO_MANY: TooManyFiles,
}


class Trouble:
    """Counts the calls while it is armed, and lets one of them fail."""

    def __init__(self, at_call: int, mode: Mode) -> None:
        self.at_call = at_call
        self.mode = mode
        self.armed = False
        # What is counted also while it is not armed, by the name of the call and its path.
        self.always: Callable[[str, str], bool] = lambda _name, _path: False
        self.calls = 0
        self.met = False
        self.names: list[str] = []
        self._dead: WorldDisk | None = None

    def around(self, disk: WorldDisk, name: str, call: Callable[[], Any], path: str = "") -> Any:
        if disk is self._dead:
            raise DiskFailed(f"injected: {disk.root} is dead")
        if self.met or not (self.armed or self.always(name, path)):
            return call()
        self.names.append(f"{disk.root} {name}")
        self.calls += 1
        if self.calls <= self.at_call:
            return call()
        self.met = True
        if self.mode in (Mode.DEAD, Mode.DONE_AND_DEAD):
            self._dead = disk
        if self.mode is Mode.KILLED:
            raise Died
        failure = _KINDS.get(self.mode, DiskFailed)
        if self.mode in (Mode.NOT_DONE, Mode.DEAD, Mode.FULL, Mode.TOO_MANY):
            raise failure(f"injected: {name}")
        call()
        if self.mode is Mode.KILLED_AFTER:
            raise Died
        raise failure(f"injected: {name}, but it is done")


class TroubledFile(WorldFile):
    __slots__ = ()

    def sync_now(self) -> None:
        self._around("sync", super().sync_now)

    def append(self, parts: Sequence[Buffer]) -> None:
        self._around("append", lambda: super(TroubledFile, self).append(parts))

    def read_now(self, position: int, size: int) -> bytes:
        read = super().read_now
        data: bytes = self._around("read", lambda: read(position, size))
        return data

    def _around(self, name: str, call: Callable[[], Any]) -> Any:
        return self._disk.trouble.around(self._disk, name, call)  # type: ignore[attr-defined]


def trouble(disk: WorldDisk, what: Trouble) -> None:
    """From now on the calls of this disk go through `what`."""
    disk.trouble = what  # type: ignore[attr-defined]
    for name in _CALLS:
        really = getattr(WorldDisk, name)
        setattr(disk, name, _troubled(disk, name, really, what))


def _troubled(
    disk: WorldDisk, name: str, really: Callable[..., Any], what: Trouble
) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        path = arguments[0] if arguments else ""
        found = what.around(disk, name, lambda: really(disk, *arguments, **options), path)
        if name == "open":
            return TroubledFile(disk, found.path, found._node)
        return found

    return call


def heal(disk: WorldDisk) -> None:
    for name in (*_CALLS, "lock", "exists", "trouble"):
        disk.__dict__.pop(name, None)


def take_away(disk: WorldDisk) -> None:
    """As if it were not mounted: nothing of it can be read or written."""

    def gone(*_arguments: Any, **_options: Any) -> Any:
        raise DiskFailed(f"injected: {disk.root} is away")

    for name in (*_CALLS, "lock"):
        setattr(disk, name, gone)


def break_writes(disk: WorldDisk, name: str) -> None:
    """Fail each write of this file, until the disk is healed."""
    really = disk.replace_now

    def replace_now(path: str, data: bytes) -> None:
        if path == name:
            raise DiskFailed(f"injected: {path}")
        really(path, data)

    disk.replace_now = replace_now  # type: ignore[method-assign]


def break_renames(disk: WorldDisk, name: str) -> None:
    """Fail each rename of this directory, until the disk is healed."""
    really = disk.rename_now

    def rename_now(path: str, new: str) -> None:
        if path == name:
            raise DiskFailed(f"injected: {path}")
        really(path, new)

    disk.rename_now = rename_now  # type: ignore[method-assign, assignment]


def fill(disk: WorldDisk, within: str = "") -> None:
    """Leave no room on the disk, or none for names that begin so."""

    def before_write(path: str) -> None:
        if path.startswith(within):
            raise DiskFull(f"injected: {path}")

    disk.before_write = before_write  # type: ignore[method-assign]


def make_room(disk: WorldDisk) -> None:
    """End what `fill` began."""
    disk.__dict__.pop("before_write", None)
