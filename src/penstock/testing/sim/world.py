"""A simulated world by a seed: virtual time, disks that lose data, unreliable networks. No thread,
no sleep.

A Simulation is a heap of events, run one turn at a time. A SimWorld is one process in it, and can
be killed. Equal seeds give equal traces under any PYTHONHASHSEED.
"""

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from penstock.testing.sim.child_process import SimChildProcesses
from penstock.testing.sim.disk import SimDisk, SimFile
from penstock.testing.sim.network import HostNetwork, SimNetwork
from penstock.world import Done, ProcessStats

WALL_START_MS = 1_750_000_000_000
MONO_START_MS = 1_000.0
# The probability that a turn takes one more event due within the window, as a busy loop would.
GATHER_CHANCE = 0.4
GATHER_WINDOW_MS = 0.5
SOON_MS_MAX = 0.05
ROUNDING_MS = 1e-6  # a timer of a drifting clock is never early
DISK_MS_MAX = 8.0
WORKER_MS_MAX = 20.0
PAGE_BYTES = 4096
_TIME = Struct(">d")


class Stuck(AssertionError):
    """A condition did not become true within its virtual time."""


class SimTimer:
    """An event in the heap; cancelled ones stay until they are due."""

    __slots__ = ("at_ms", "call", "label", "world")

    def __init__(
        self, at_ms: float, world: "SimWorld", call: Callable[[], None], label: str
    ) -> None:
        self.at_ms = at_ms
        self.world = world
        self.call: Callable[[], None] | None = call
        self.label = label

    def cancel(self) -> None:
        self.call = None


class TraceMarks(dict[str, bytes]):
    """The bytes in the trace for the events of one process, by their labels."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, label: str) -> bytes:
        mark = self[label] = f" {self._name} {label}\n".encode()
        return mark


class Simulation:
    """The time, the random numbers and the events of a simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_ms = 0.0
        self.turns = 0
        self.network = SimNetwork(self)
        self._events: list[tuple[float, int, SimTimer]] = []
        self._order = 0
        self._trace = hashlib.blake2b(digest_size=16)

    def schedule(
        self, delay_ms: float, world: "SimWorld", call: Callable[[], None], label: str
    ) -> SimTimer:
        """Run `call` as an event of `world`, unless that is dead by then."""
        timer = SimTimer(self.now_ms + max(0.0, delay_ms), world, call, label)
        self._order += 1
        heapq.heappush(self._events, (timer.at_ms, self._order, timer))
        return timer

    # -- the trace

    def note(self, what: str) -> None:
        self.note_bytes(what.encode())

    def note_bytes(self, what: bytes) -> None:
        self._trace.update(what)

    @property
    def trace(self) -> str:
        """Return a hash of all events so far."""
        return self._trace.hexdigest()

    # -- running

    def step(self) -> bool:
        """Run one turn of one process; return False when no event is left."""
        timer = self._next()
        if timer is None:
            return False
        self.turns += 1
        world = timer.world
        self._run(timer)
        while self.chance.random() < GATHER_CHANCE and (more := self._next_of(world)) is not None:
            self._run(more)
        world.end_turn()
        return True

    def _next(self) -> SimTimer | None:
        while self._events:
            at_ms, order, timer = heapq.heappop(self._events)
            if timer.call is None or not timer.world.alive:
                continue
            if at_ms < timer.world.paused_until_ms:
                timer.at_ms = timer.world.paused_until_ms
                heapq.heappush(self._events, (timer.at_ms, order, timer))
                continue
            return timer
        return None

    def _next_of(self, world: "SimWorld") -> SimTimer | None:
        """Return the next event, if it belongs to this world and is nearly due."""
        while self._events:
            timer = self._events[0][2]
            if timer.call is None or not timer.world.alive:
                heapq.heappop(self._events)
                continue
            due = timer.world is world and timer.at_ms <= self.now_ms + GATHER_WINDOW_MS
            if due and self.now_ms >= world.paused_until_ms:
                heapq.heappop(self._events)
                return timer
            return None
        return None

    def _run(self, timer: SimTimer) -> None:
        self.now_ms = max(self.now_ms, timer.at_ms)
        self._trace.update(_TIME.pack(self.now_ms) + timer.world.trace_marks[timer.label])
        call, timer.call = timer.call, None
        assert call is not None, "a cancelled event does not run"
        call()

    def run_until(self, condition: Callable[[], bool], limit_ms: float = 600_000) -> None:
        """Run turns until the condition holds; raise Stuck after the limit of virtual time."""
        until = self.now_ms + limit_ms
        while not condition():
            if self.now_ms > until or not self.step():
                raise Stuck(f"seed {self.seed}: not within {limit_ms:.0f} ms of virtual time")

    def run_for(self, duration_ms: float) -> None:
        """Let so much virtual time pass."""
        until = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= until:
            self.step()
        self.now_ms = max(self.now_ms, until)


class SimWorld:
    """One process: a world.World whose events die with it."""

    def __init__(
        self,
        simulation: "Simulation | int",
        name: str = "node",
        *,
        host: str | None = None,
        disks: "dict[str, WorldDisk] | None" = None,
        skew_ms: int = 0,
        read_cost_ms: float = 0.0,
        clock_rate: float = 1.0,
    ) -> None:
        """Make the world of one simulated node.

        `disks` are those of an earlier process. `read_cost_ms` is the cost of reading the clock, as
        on a slow host. A clock with a `clock_rate` above one is fast. `skew_ms` may change at any
        time: the wall clock jumps.
        """
        if isinstance(simulation, int):
            simulation = Simulation(simulation)
        self.simulation = simulation
        self.name = name
        self.trace_marks = TraceMarks(name)
        self.alive = True
        self.skew_ms = skew_ms
        self.clock_rate = clock_rate
        self.paused_until_ms = 0.0
        self.disk_ms_max = DISK_MS_MAX
        self.memory_releases = 0
        self.files: dict[str, bytes] = {}  # of the operator, by path
        self.pages: dict[str, bytes] = {}  # of the web, by URL
        self.fetches = 0
        self.disks: dict[str, WorldDisk] = {} if disks is None else disks
        self.clock = SimClock(self, read_cost_ms)
        self.timers = SimTimers(self)
        self.network = HostNetwork(simulation.network, self, host or name)
        self.workers = SimWorkers(self)
        self.child_processes = SimChildProcesses(self)
        self.entropy = SimEntropy(random.Random(simulation.chance.randrange(2**32)))
        self._after_turn: deque[Callable[[], None]] = deque()
        for disk in self.disks.values():
            disk.wake(self._disk_event)
            disk.now_ms = self.clock.wall_ms

    def disk(self, root: str) -> "WorldDisk":
        found = self.disks.get(root)
        if found is None:
            seed = self.simulation.chance.randrange(2**32)
            found = self.disks[root] = WorldDisk(seed, root=root)
            found.wake(self._disk_event)
            found.now_ms = self.clock.wall_ms
        return found

    def process_stats(self) -> ProcessStats:
        return ProcessStats(started_ms=WALL_START_MS + self.skew_ms, turns=self.simulation.turns)

    def read_file(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def fetch(self, url: str, bytes_max: int, timeout_ms: float) -> bytes:  # noqa: ARG002
        self.fetches += 1
        if url not in self.pages:
            raise OSError("HTTP 404")
        return self.pages[url]

    def release_memory(self) -> None:
        self.memory_releases += 1

    def _disk_event(self, call: Callable[[], None]) -> None:
        chance = self.simulation.chance
        delay_ms = 0.0 if chance.random() < 0.2 else chance.uniform(0.0, self.disk_ms_max)
        self.simulation.schedule(delay_ms, self, call, "disk")

    def after_turn(self, call: Callable[[], None]) -> None:
        self._after_turn.append(call)

    def end_turn(self) -> None:
        after_turn = self._after_turn
        while after_turn and self.alive:
            after_turn.popleft()()
        self.network.turn_ended()

    # -- pauses and the end of the process

    def pause(self, duration_ms: float) -> None:
        """Stop as by SIGSTOP: events wait, connections stay open."""
        self.paused_until_ms = max(self.paused_until_ms, self.simulation.now_ms + duration_ms)

    def kill(self, *, machine: bool = False) -> None:
        """Stop as by SIGKILL: events are dropped, connections break, locks are released. If the
        `machine` vanishes too, no peer hears of the end."""
        self.alive = False
        self._after_turn.clear()
        self.network.vanish(machine=machine)
        for disk in self.disks.values():
            disk.orphan()

    def disks_after_kill(self) -> "dict[str, WorldDisk]":
        """Return the disks for the next process on the same machine: every written
        byte is there."""
        assert not self.alive, "only the disks of the dead are inherited"
        return self.disks

    def disks_after_power_loss(self) -> "dict[str, WorldDisk]":
        """Return the disks for the next process after a power loss: unsynced bytes survive at
        random."""
        assert not self.alive, "only the disks of the dead are inherited"
        return {root: disk.crash() for root, disk in self.disks.items()}


class SimClock:
    def __init__(self, world: SimWorld, read_cost_ms: float) -> None:
        self._world = world
        self._simulation = world.simulation
        self._read_cost_ms = read_cost_ms

    def wall_ms(self) -> int:
        return WALL_START_MS + int(self._simulation.now_ms) + self._world.skew_ms

    def mono_ms(self) -> float:
        if self._read_cost_ms:
            self._simulation.now_ms += self._read_cost_ms
        return MONO_START_MS + self._simulation.now_ms * self._world.clock_rate


class SimTimers:
    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._simulation = world.simulation

    def at(self, mono_ms: float, call: Callable[[], None]) -> SimTimer:
        rate = self._world.clock_rate
        delay_ms = (mono_ms - MONO_START_MS) / rate - self._simulation.now_ms
        if rate != 1.0:
            delay_ms += ROUNDING_MS
        return self._simulation.schedule(delay_ms, self._world, call, "timer")

    def soon(self, call: Callable[[], None]) -> None:
        delay_ms = self._simulation.chance.uniform(0.0, SOON_MS_MAX)
        self._simulation.schedule(delay_ms, self._world, call, "soon")

    def after_turn(self, call: Callable[[], None]) -> None:
        self._world.after_turn(call)


class SimWorkers:
    def __init__(self, world: SimWorld) -> None:
        self._world = world

    def use(self, threads: int | None) -> None:
        """Ignore the number: there are no threads."""

    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        def finish() -> None:
            try:
                result = function(*arguments)
            except Exception as failure:  # for the caller
                done(None, failure)
            else:
                done(result, None)

        simulation = self._world.simulation
        delay_ms = simulation.chance.uniform(0.0, WORKER_MS_MAX)
        simulation.schedule(delay_ms, self._world, finish, "worker")

    compute = run


class SimEntropy:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def uuid(self) -> bytes:
        value = bytearray(self._chance.randbytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        return bytes(value)

    def random_ms(self, low: int, high: int) -> int:
        return self._chance.randint(low, high)


class WorldFile(SimFile):
    """A file whose bytes are in memory once read, as in a page cache."""

    __slots__ = ()

    def read_now(self, position: int, size: int) -> bytes:
        if self._disk.cold:
            self.warm_now(position, size)
        return super().read_now(position, size)

    def warm_now(self, position: int, size: int) -> None:
        pages = range(position // PAGE_BYTES, (position + size) // PAGE_BYTES + 1)
        self._node.warm.update(pages)


class WorldDisk(SimDisk):
    """A SimDisk whose work ends in any order, as with several threads."""

    def open(self, path: str, *, create: bool = False) -> WorldFile:
        return WorldFile(self, path, super().open(path, create=create)._node)

    def wake(self, event: Callable[[Callable[[], None]], None]) -> None:
        """Run callbacks in this process from now on."""
        self.use_loop(event)

    def run_one(self) -> None:
        if self._waiting:
            self._waiting.rotate(-self._random.randrange(min(3, len(self._waiting))))
        super().run_one()

    def orphan(self) -> None:
        """Note that the process is gone: its threads may have finished their work, or not."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for work, _done in waiting:
            if self._random.random() < 0.5:
                self.dies_with(work, self._random)
        self._soon = _drop_call
        self.unlock()

    def later(self, work: Callable[[], None], done: Done) -> None:
        assert self._soon is not _drop_call, "a dead process asks nothing of its disk"
        super().later(work, done)

    def crash(self, seed: int | None = None) -> "WorldDisk":
        return self._with_files_of(super().crash(seed))

    def backup(self) -> "WorldDisk":
        """Return a disk with the files of this moment."""
        return self._with_files_of(self)

    def _with_files_of(self, survived: SimDisk) -> "WorldDisk":
        after = WorldDisk(self._random.randrange(2**32), root=self.root, cold=self.cold)
        for path in _directories(survived):
            after.make_directory(path)
        for path, data in survived.files().items():
            after.put(path, data, survived.modified_ms(path))
        return after


def _drop_call(_call: Callable[[], None]) -> None:
    """Drop the callback of a dead process."""


def _directories(disk: SimDisk, path: str = "") -> list[str]:
    found: list[str] = []
    for name in disk.list(path):
        inner = f"{path}/{name}" if path else name
        if disk.is_directory(inner):
            found += [inner, *_directories(disk, inner)]
    return found


@contextmanager
def repeatable(seed: int, file: str, about: Callable[[], str] | None = None) -> Iterator[None]:
    """Add the seed to any failure inside; `about` adds more, and is called only then."""
    try:
        yield
    except BaseException as problem:
        if about is not None:
            problem.add_note(about())
        problem.add_note(f"again: PENSTOCK_SIM_SEED={seed} PENSTOCK_SIM_RUNS=1 pytest {file}")
        raise
