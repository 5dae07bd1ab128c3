"""Simulated work of another process: rehearsed at once, performed one disk operation at a time.

The function runs on a copy of the disk. Its writes, syncs, removals and messages are then repeated
on the simulated disk step by step, between other events, so that a crash can come between any two.
That equals a real process if the function reads only unchanging files and writes only private ones,
which such work must promise anyway.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.testing.sim.disk import SimDisk
from penstock.world import Buffer, DiskFailed, ProcessDied

if TYPE_CHECKING:
    from penstock.testing.sim.world import SimWorld

STEP_MS_MAX = 3.0
DEATH_CHANCE = 0.02  # per errand, that its process is killed in the middle
Step = Callable[[], None]
Ended = Callable[[Any, BaseException | None], None]


class RehearsedFile:
    """A file as the function sees it; writes become steps."""

    def __init__(self, disk: "RehearsedDisk", path: str, data: bytearray | None) -> None:
        self._disk = disk
        self._data = data  # None for a read-only file
        self.path = path

    @property
    def size(self) -> int:
        return self._disk.real.size(self.path) if self._data is None else len(self._data)

    def append(self, parts: Sequence[Buffer]) -> None:
        assert self._data is not None, "work apart writes to nothing but what it has made"
        written = b"".join(parts)
        self._data += written
        self._disk.step(lambda: self._disk.real.open(self.path, create=True).append([written]))

    def read_now(self, position: int, size: int) -> bytes:
        if self._data is not None:
            return bytes(self._data[position : position + size])
        return self._disk.real.open(self.path).read_now(position, size)

    def truncate_now(self, size: int) -> None:
        assert self._data is not None, "work apart writes to nothing but what it has made"
        del self._data[size:]
        self._disk.step(lambda: self._disk.real.open(self.path).truncate_now(size))

    def sync_now(self) -> None:
        self._disk.step(lambda: self._disk.real.open(self.path).sync_now())

    def close(self) -> None:
        pass


class RehearsedDisk:
    """The part of world.Disk that work in another process may use."""

    def __init__(self, real: SimDisk) -> None:
        self.real = real
        self.root = real.root
        self.steps: list[Step] = []
        self._made: dict[str, bytearray] = {}
        self._removed: set[str] = set()

    def step(self, step: Step) -> None:
        self.steps.append(step)

    def open(self, path: str, *, create: bool = False) -> RehearsedFile:
        made = self._made.get(path)
        if made is not None:
            return RehearsedFile(self, path, made)
        if not self._is_real(path):
            if not create:
                raise FileNotFoundError(path)
            self._made[path] = bytearray()
            self.step(lambda: _ignore(self.real.open(path, create=True)))
            return RehearsedFile(self, path, self._made[path])
        return RehearsedFile(self, path, None)

    def _is_real(self, path: str) -> bool:
        return path not in self._removed and self.real.exists(path)

    def exists(self, path: str) -> bool:
        return path in self._made or self._is_real(path)

    def size(self, path: str) -> int:
        made = self._made.get(path)
        return self.real.size(path) if made is None else len(made)

    def free_bytes(self) -> int:
        return self.real.free_bytes()

    def list(self, path: str = "") -> list[str]:
        prefix = f"{path}/" if path else ""
        made = {name[len(prefix) :] for name in self._made if name.startswith(prefix)}
        there = {name for name in self.real.list(path) if prefix + name not in self._removed}
        return sorted(made | there)

    def remove_now(self, path: str) -> None:
        self._made.pop(path, None)
        self._removed.add(path)
        self.step(lambda: self.real.remove_now(path))

    def replace_now(self, path: str, data: bytes) -> None:
        self._made[path] = bytearray(data)
        self.step(lambda: self.real.replace_now(path, data))

    put_now = replace_now


def _ignore(_result: object) -> None:
    """Ignore a result."""


class Rehearsal:
    """One errand: its steps, which the owner of the time takes."""

    def __init__(
        self,
        disk: SimDisk,
        function: str,
        arguments: tuple[Any, ...],
        heard: Callable[[Any], None],
        done: Ended,
    ) -> None:
        self._heard = heard
        self._done = done
        self._steps: list[Step] = []
        self._result: Any = None
        self._failure: BaseException | None = None
        self.ended = False
        self._stopped = False
        rehearsed = RehearsedDisk(disk)
        module, _, name = function.partition(":")

        def say(value: Any) -> None:
            rehearsed.step(lambda: self._say(value))

        try:
            call = getattr(importlib.import_module(module), name)
            self._result = call(
                rehearsed, *arguments, say, lambda: False, clock=lambda: 0.0, pause=_ignore
            )
        except Exception as failure:  # for the caller that waits for the work
            self._failure = failure
        self._steps = rehearsed.steps
        self._steps.reverse()

    @property
    def steps_left(self) -> int:
        return len(self._steps)

    def _say(self, value: Any) -> None:
        if not self._stopped:
            self._heard(value)

    def step(self) -> None:
        """Perform the next operation; after the last one, end."""
        if self.ended:
            return
        if not self._steps:
            self._end(self._result, self._failure)
            return
        try:
            self._steps.pop()()
        except DiskFailed as failure:
            self._end(None, failure)

    def stop(self) -> None:
        self._stopped = True

    def die(self) -> None:
        self._end(None, ProcessDied("killed by the simulation"))

    @property
    def stopped(self) -> bool:
        return self._stopped

    def _end(self, result: Any, failure: BaseException | None) -> None:
        self.ended = True
        self._steps.clear()
        self._done(result, failure)


class SimChildProcesses:
    """Errands of one simulated process: their steps are events among the others."""

    def __init__(self, world: "SimWorld") -> None:
        self._world = world

    def run(
        self,
        function: str,
        root: str,
        arguments: tuple[Any, ...],
        heard: Callable[[Any], None],
        done: Ended,
    ) -> Rehearsal:
        simulation = self._world.simulation
        errand = Rehearsal(self._world.disk(root), function, arguments, heard, done)
        death = -1
        if simulation.chance.random() < DEATH_CHANCE:
            death = simulation.chance.randrange(errand.steps_left + 1)

        def step() -> None:
            if errand.stopped or errand.steps_left == death:
                errand.die()
                return
            errand.step()
            if not errand.ended:
                later()

        def later() -> None:
            delay_ms = simulation.chance.uniform(0.0, STEP_MS_MAX)
            simulation.schedule(delay_ms, self._world, step, "apart")

        later()
        return errand


class MemoryChildProcesses:
    """Errands over disks in memory, invisible to other processes: rehearsed on a thread, performed
    on the loop."""

    def __init__(self, disk: Callable[[str], SimDisk], run: Callable[..., None]) -> None:
        self._disk = disk
        self._run = run

    def run(
        self,
        function: str,
        root: str,
        arguments: tuple[Any, ...],
        heard: Callable[[Any], None],
        done: Ended,
    ) -> "MemoryChildTask":
        errand = MemoryChildTask()

        def rehearsed(rehearsal: Rehearsal | None, failure: BaseException | None) -> None:
            if rehearsal is None:
                done(None, failure)
                return
            errand.rehearsal = rehearsal
            while not rehearsal.ended:
                if errand.stopped:
                    rehearsal.die()
                rehearsal.step()

        disk = self._disk(root)
        self._run(lambda: Rehearsal(disk, function, arguments, heard, done), (), rehearsed)
        return errand


class MemoryChildTask:
    def __init__(self) -> None:
        self.rehearsal: Rehearsal | None = None
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        if self.rehearsal is not None:
            self.rehearsal.stop()
