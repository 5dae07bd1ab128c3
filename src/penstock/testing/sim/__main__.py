"""Runs simulations from the command line: `python -m penstock.testing.sim quorum --seeds 1000`.

    --first N      the first seed (1)
    --workers N    processes; one per core unless set
    --story        print the events of the seeds, one line each

The exit status is 1 if a seed has failed, or if 1000 seeds or more have reached a kind of event too
seldom. A failed seed is printed with the command that repeats
it; equal seeds give equal events under any PYTHONHASHSEED.
"""

import argparse
import os
import sys
import time

from penstock.release import VERSION
from penstock.testing.sim.quorum.simulation import QuorumSimulation
from penstock.testing.sim.quorum.sweep import SweepResult, sweep

PROGRESS_EVERY_S = 10.0
SEEDS_FOR_ALL_EVENTS = 1000


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.sim")
    parser.add_argument("simulation", choices=["quorum"])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--story", action="store_true")
    return parser.parse_args(arguments)


def tell(first: int, count: int) -> int:
    """Print the events of some seeds; return the exit status."""
    for seed in range(first, first + count):
        simulation = QuorumSimulation(seed)
        simulation.story = []
        print(f"seed {seed}: {simulation.draw}")
        try:
            simulation.run()
        except AssertionError as error:
            print("\n".join(simulation.story))
            print(f"{type(error).__name__}: {error}")
            return 1
        print("\n".join(simulation.story))
    return 0


def report(result: SweepResult, wall_s: float) -> None:
    for name, count in sorted(result.counters.items()):
        print(f"{count:12d} {name}")
    cpu_ms = result.cpu_s / max(1, result.seeds) * 1000
    print(
        f"{result.seeds} seeds, {len(result.failures)} failed, {cpu_ms:.1f} ms CPU per seed, "
        f"{result.seeds / max(wall_s, 0.001) * 3600:.0f} seeds per hour (penstock {VERSION})"
    )
    for failure in result.failures:
        print(f"seed {failure.seed}: {failure.error}")
        print(
            "  repeat it: python -m penstock.testing.sim quorum --seeds 1 "
            f"--first {failure.seed} --story"
        )


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    if options.story:
        return tell(options.first, options.seeds)
    begin_s = time.monotonic()
    printed_s = begin_s

    def progress(result: SweepResult) -> None:
        nonlocal printed_s
        if time.monotonic() - printed_s > PROGRESS_EVERY_S:
            printed_s = time.monotonic()
            print(f"{result.seeds} seeds, {len(result.failures)} failed", flush=True)

    result = sweep(options.first, options.seeds, options.workers, progress)
    report(result, time.monotonic() - begin_s)
    missed = result.missed() if result.seeds >= SEEDS_FOR_ALL_EVENTS else []
    if missed:
        print(f"reached too seldom: {', '.join(missed)}")
    return 1 if result.failures or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
