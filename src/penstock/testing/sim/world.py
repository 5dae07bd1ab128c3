"""A world made of a seed: virtual time, disks that forget, networks that chop. No thread, no sleep.

A Simulation is a heap of events, run one turn at a time; a SimWorld is one process in it, and can
be killed. The same seed gives the same trace, whatever PYTHONHASHSEED says.
"""

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.testing.sim.apart import SimApart
from penstock.testing.sim.disk import SimDisk, SimFile
from penstock.testing.sim.network import HostNetwork, SimNetwork
from penstock.world import Done, Vitals

WALL_START_MS = 1_750_000_000_000
MONO_START_MS = 1_000.0
# How often a turn takes in one more event that is due within the window, as a busy loop would.
GATHER_CHANCE = 0.4
GATHER_WINDOW_MS = 0.5
SOON_MS_MAX = 0.05
DISK_MS_MAX = 8.0
WORKER_MS_MAX = 20.0
PAGE_BYTES = 4096


class Stuck(AssertionError):
    """What was waited for did not happen within its virtual time."""


class SimTimer:
    """An event in the heap; cancelled ones stay until they come up."""

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


class Simulation:
    """Time, chance and events of everything that runs together."""

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
        self._trace.update(what.encode())

    @property
    def trace(self) -> str:
        """A hash over everything that has happened so far."""
        return self._trace.hexdigest()

    # -- running

    def step(self) -> bool:
        """One turn of one process; False when nothing is left to happen."""
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
            timer = heapq.heappop(self._events)[2]
            if timer.call is not None and timer.world.alive:
                return timer
        return None

    def _next_of(self, world: "SimWorld") -> SimTimer | None:
        """The next event, if it is this world's and nearly due."""
        while self._events:
            timer = self._events[0][2]
            if timer.call is None or not timer.world.alive:
                heapq.heappop(self._events)
                continue
            if timer.world is world and timer.at_ms <= self.now_ms + GATHER_WINDOW_MS:
                heapq.heappop(self._events)
                return timer
            return None
        return None

    def _run(self, timer: SimTimer) -> None:
        self.now_ms = max(self.now_ms, timer.at_ms)
        self.note(f"{self.now_ms:.6f} {timer.world.name} {timer.label}\n")
        call, timer.call = timer.call, None
        assert call is not None, "a cancelled event does not run"
        call()

    def run_until(self, condition: Callable[[], bool], limit_ms: float = 600_000) -> None:
        """Turn until it holds; Stuck if it does not within the limit of virtual time."""
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
    ) -> None:
        """`disks` are those of an earlier life; `read_cost_ms` is what looking at the clock costs,
        which makes a slow machine of this one."""
        if isinstance(simulation, int):
            simulation = Simulation(simulation)
        self.simulation = simulation
        self.name = name
        self.alive = True
        self.skew_ms = skew_ms
        self.memory_releases = 0
        self.disks: dict[str, WorldDisk] = {} if disks is None else disks
        self.clock = SimClock(self, read_cost_ms)
        self.timers = SimTimers(self)
        self.network = HostNetwork(simulation.network, self, host or name)
        self.workers = SimWorkers(self)
        self.apart = SimApart(self)
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

    def vitals(self) -> Vitals:
        return Vitals(started_ms=WALL_START_MS + self.skew_ms, turns=self.simulation.turns)

    def release_memory(self) -> None:
        self.memory_releases += 1

    def _disk_event(self, call: Callable[[], None]) -> None:
        chance = self.simulation.chance
        delay_ms = 0.0 if chance.random() < 0.2 else chance.uniform(0.0, DISK_MS_MAX)
        self.simulation.schedule(delay_ms, self, call, "disk")

    def after_turn(self, call: Callable[[], None]) -> None:
        self._after_turn.append(call)

    def end_turn(self) -> None:
        after_turn = self._after_turn
        while after_turn and self.alive:
            after_turn.popleft()()
        self.network.turn_ended()

    # -- ends

    def kill(self) -> None:
        """As by SIGKILL: nothing of it runs any more, its connections break, its locks go."""
        self.alive = False
        self._after_turn.clear()
        self.network.vanish()
        for disk in self.disks.values():
            disk.orphan()

    def disks_after_kill(self) -> "dict[str, WorldDisk]":
        """For the next life, the machine having stayed up: every written byte is there."""
        assert not self.alive, "only the disks of the dead are inherited"
        return self.disks

    def disks_after_power_loss(self) -> "dict[str, WorldDisk]":
        """For the next life, the power having gone: what was not synced is a gamble."""
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
        self._simulation.now_ms += self._read_cost_ms
        return MONO_START_MS + self._simulation.now_ms


class SimTimers:
    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._simulation = world.simulation

    def at(self, mono_ms: float, call: Callable[[], None]) -> SimTimer:
        delay_ms = mono_ms - MONO_START_MS - self._simulation.now_ms
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
        """There is no thread here."""

    def run(
        self,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any, BaseException | None], None],
    ) -> None:
        def finish() -> None:
            try:
                result = function(*arguments)
            except Exception as failure:  # whatever it was belongs to the caller
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
    """A file whose bytes are in memory once they were read, as a page cache has it."""

    __slots__ = ()

    def read_now(self, position: int, size: int) -> bytes:
        if self._disk.cold:
            self.warm_now(position, size)
        return super().read_now(position, size)

    def warm_now(self, position: int, size: int) -> None:
        pages = range(position // PAGE_BYTES, (position + size) // PAGE_BYTES + 1)
        self._node.warm.update(pages)


class WorldDisk(SimDisk):
    """A SimDisk whose work ends in any order, as that of several threads does."""

    def open(self, path: str, *, create: bool = False) -> WorldFile:
        return WorldFile(self, path, super().open(path, create=create)._node)

    def wake(self, event: Callable[[Callable[[], None]], None]) -> None:
        """From now on this process runs the callbacks."""
        self.use_loop(event)

    def run_one(self) -> None:
        if self._waiting:
            self._waiting.rotate(-self._random.randrange(min(3, len(self._waiting))))
        super().run_one()

    def orphan(self) -> None:
        """The process is gone: its threads may have finished what they had begun, or not."""
        waiting = list(self._waiting)
        self._waiting.clear()
        for work, _done in waiting:
            if self._random.random() < 0.5:
                self.dies_with(work, self._random)
        self._soon = _nobody
        self.unlock()

    def later(self, work: Callable[[], None], done: Done) -> None:
        assert self._soon is not _nobody, "a dead process asks nothing of its disk"
        super().later(work, done)

    def crash(self, seed: int | None = None) -> "WorldDisk":
        survived = super().crash(seed)
        after = WorldDisk(self._random.randrange(2**32), root=self.root, cold=self.cold)
        for path in _directories(survived):
            after.make_directory(path)
        for path, data in survived.files().items():
            after.put(path, data, survived.modified_ms(path))
        return after


def _nobody(_call: Callable[[], None]) -> None:
    """Where the callbacks of a dead process go."""


def _directories(disk: SimDisk, path: str = "") -> list[str]:
    found: list[str] = []
    for name in disk.list(path):
        inner = f"{path}/{name}" if path else name
        if disk.is_directory(inner):
            found += [inner, *_directories(disk, inner)]
    return found
