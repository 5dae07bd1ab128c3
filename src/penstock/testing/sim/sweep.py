"""Many seeds of a simulation, on several processes, with their counters merged."""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Protocol

REACHED_PER_1000_SEEDS = 10
FAILURES_MAX = 10


class SeedRun(Protocol):
    """One seed of a simulation, before its run."""

    story: list[str] | None  # notable events, one line each, if asked for

    @property
    def mix(self) -> object:
        """Return what the seed has drawn."""
        ...

    def run(self) -> "SeedResult": ...


class SeedResult(Protocol):
    """The result of a seed."""

    @property
    def counters(self) -> Counter[str]: ...


@dataclass(frozen=True, slots=True)
class SimulationKind:
    """A simulation that the runner knows: `make` returns the run of a seed.

    `reached` are events that a sweep must reach; a sweep that does not reach them proves little.
    """

    name: str
    make: Callable[[int], SeedRun]
    reached: tuple[str, ...]
    seeds_per_task: int


@dataclass(frozen=True, slots=True)
class SeedFailure:
    """A seed that broke an invariant, or an assertion of a node."""

    seed: int
    error: str
    mix: str


@dataclass(slots=True)
class SweepResult:
    """Merged counters of many seeds; `reached` counts the seeds that reached an event. `cpu_s` is
    the time of the simulation alone."""

    seeds: int = 0
    cpu_s: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    failures: list[SeedFailure] = field(default_factory=list)

    def add(self, other: "SweepResult") -> None:
        self.seeds += other.seeds
        self.cpu_s += other.cpu_s
        self.counters.update(other.counters)
        self.reached.update(other.reached)
        self.failures += other.failures

    def missed(self, kind: SimulationKind) -> list[str]:
        """Return the events that too few seeds have reached; many events of one seed prove as
        little as one."""
        least = max(1, self.seeds * REACHED_PER_1000_SEEDS // 1000)
        return [name for name in kind.reached if self.reached[name] < least]


def run_seeds(kind: SimulationKind, seeds: range) -> SweepResult:
    """Run seeds one after the other in this process."""
    result = SweepResult()
    begin_s = time.process_time()
    for seed in seeds:
        result.seeds += 1
        run = kind.make(seed)
        try:
            counters = run.run().counters
            result.counters.update(counters)
            result.reached.update(name for name, count in counters.items() if count > 0)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            result.failures.append(SeedFailure(seed, text, str(run.mix)))
    result.cpu_s = time.process_time() - begin_s
    return result


def split_seeds(kind: SimulationKind, first: int, count: int) -> Iterator[range]:
    """Yield the seeds in tasks of a second or so."""
    for begin in range(first, first + count, kind.seeds_per_task):
        yield range(begin, min(begin + kind.seeds_per_task, first + count))


def sweep(
    kind: SimulationKind,
    first: int,
    count: int,
    workers: int,
    progress: Callable[[SweepResult], None],
) -> SweepResult:
    """Run `count` seeds on `workers` processes; stop early after some failures."""
    result = SweepResult()
    if workers <= 1:
        for seeds in split_seeds(kind, first, count):
            result.add(run_seeds(kind, seeds))
            progress(result)
            if len(result.failures) >= FAILURES_MAX:
                break
        return result
    # The code is loaded: a collector that left it out has less to look at.
    with ProcessPoolExecutor(workers, initializer=gc.freeze) as pool:
        tasks = [pool.submit(run_seeds, kind, seeds) for seeds in split_seeds(kind, first, count)]
        for task in as_completed(tasks):
            result.add(task.result())
            progress(result)
            if len(result.failures) >= FAILURES_MAX:
                pool.shutdown(cancel_futures=True)
                break
    result.failures.sort(key=lambda failure: failure.seed)
    return result
