"""Many seeds of the simulated quorum, on several processes, with their counters merged."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from penstock.testing.sim.quorum.simulation import simulate

SEEDS_PER_TASK = 50
REACHED_PER_1000_SEEDS = 10
FAILURES_MAX = 10

# Events that a sweep must reach; a sweep that does not reach them proves little.
REACHED = (
    "elections",
    "pre-votes denied",
    "votes denied",
    "truncations",
    "snapshots installed",
    "downloads dropped",
    "log cuts",
    "resignations",
    "check-quorum losses",
    "restarted leaders",
    "restarted candidates",
    "losses of power",
    "losses of all power",
    "crashes after a vote",
    "crashes after an election",
    "isolations after an election",
    "kills",
    "pauses",
    "splits",
    "isolations",
    "one-way partitions",
    "slow disks",
    "full disks",
    "shutdowns",
)


@dataclass(frozen=True, slots=True)
class SeedFailure:
    """A seed that broke an invariant, or an assertion of the machine."""

    seed: int
    error: str


@dataclass(slots=True)
class SweepResult:
    """Merged counters of many seeds. `cpu_s` is the time of the simulation alone."""

    seeds: int = 0
    cpu_s: float = 0.0
    counters: Counter[str] = field(default_factory=Counter)
    failures: list[SeedFailure] = field(default_factory=list)

    def add(self, other: "SweepResult") -> None:
        self.seeds += other.seeds
        self.cpu_s += other.cpu_s
        self.counters.update(other.counters)
        self.failures += other.failures

    def missed(self) -> list[str]:
        """Return the events that were reached too seldom for the number of seeds."""
        least = max(1, self.seeds * REACHED_PER_1000_SEEDS // 1000)
        return [name for name in REACHED if self.counters[name] < least]


def run_seeds(seeds: range) -> SweepResult:
    """Run seeds one after the other in this process."""
    result = SweepResult()
    begin_s = time.process_time()
    for seed in seeds:
        result.seeds += 1
        try:
            result.counters.update(simulate(seed).counters)
        except Exception as error:
            result.failures.append(SeedFailure(seed, f"{type(error).__name__}: {error}"))
    result.cpu_s = time.process_time() - begin_s
    return result


def split_seeds(first: int, count: int) -> Iterator[range]:
    """Yield the seeds in tasks of a second or so."""
    for begin in range(first, first + count, SEEDS_PER_TASK):
        yield range(begin, min(begin + SEEDS_PER_TASK, first + count))


def sweep(
    first: int, count: int, workers: int, progress: Callable[[SweepResult], None]
) -> SweepResult:
    """Run `count` seeds on `workers` processes; stop early after some failures."""
    result = SweepResult()
    if workers <= 1:
        for seeds in split_seeds(first, count):
            result.add(run_seeds(seeds))
            progress(result)
            if len(result.failures) >= FAILURES_MAX:
                break
        return result
    with ProcessPoolExecutor(workers) as pool:
        tasks = [pool.submit(run_seeds, seeds) for seeds in split_seeds(first, count)]
        for task in as_completed(tasks):
            result.add(task.result())
            progress(result)
            if len(result.failures) >= FAILURES_MAX:
                pool.shutdown(cancel_futures=True)
                break
    result.failures.sort(key=lambda failure: failure.seed)
    return result
