"""Runs simulations from the command line: `python -m penstock.testing.sim cluster --seeds 1000`.

    quorum             the metadata quorum alone
    replication        leaders, followers and their controller alone
    cluster            whole clusters of real nodes
    --first N          the first seed (1)
    --processes N      one per core unless set; also --workers
    --story            print the events of the seeds, one line each

The exit status is 1 if a seed has failed, or if fewer than 10 of 1000 seeds have reached a kind of
event. A failed seed is printed with its mix, and with the command that repeats it at the printed
commit. Equal seeds give equal events under any PYTHONHASHSEED.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from penstock.release import VERSION
from penstock.testing.sim.kinds import KINDS
from penstock.testing.sim.sweep import SimulationKind, SweepResult, sweep

PROGRESS_EVERY_S = 10.0
SEEDS_FOR_ALL_EVENTS = 1000


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.sim")
    parser.add_argument("simulation", choices=sorted(KINDS))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--processes", "--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--story", action="store_true")
    return parser.parse_args(arguments)


def tell(kind: SimulationKind, first: int, count: int) -> int:
    """Print the events of some seeds; return the exit status."""
    for seed in range(first, first + count):
        simulation = kind.make(seed)
        simulation.story = []
        print(f"seed {seed}: {simulation.mix}")
        try:
            simulation.run()
        except Exception as error:
            print("\n".join(simulation.story))
            print(f"{type(error).__name__}: {error}")
            return 1
        print("\n".join(simulation.story))
    return 0


def find_commit() -> str:
    """Return the commit of this checkout, or the version of an installed package."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or VERSION


def report(kind: SimulationKind, result: SweepResult, wall_s: float) -> None:
    for name, count in sorted(result.counters.items()):
        print(f"{count:12d} in {result.reached[name]:7d} seeds: {name}")
    cpu_ms = result.cpu_s / max(1, result.seeds) * 1000
    print(
        f"{result.seeds} seeds, {len(result.failures)} failed, {cpu_ms:.1f} ms CPU per seed, "
        f"{result.seeds / max(wall_s, 0.001) * 3600:.0f} seeds per hour (commit {find_commit()})"
    )
    for failure in result.failures:
        print(f"seed {failure.seed}: {failure.error}")
        print(f"  mix: {failure.mix}")
        print(
            f"  repeat it: python -m penstock.testing.sim {kind.name} --seeds 1 "
            f"--first {failure.seed} --story"
        )


def main(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    kind = KINDS[options.simulation]
    if options.story:
        return tell(kind, options.first, options.seeds)
    begin_s = time.monotonic()
    printed_s, failed = begin_s, 0

    def progress(result: SweepResult) -> None:
        nonlocal printed_s, failed
        for failure in result.failures[failed:]:
            print(f"seed {failure.seed}: {failure.error}", flush=True)
        failed = len(result.failures)
        if time.monotonic() - printed_s > PROGRESS_EVERY_S:
            printed_s = time.monotonic()
            print(f"{result.seeds} seeds, {len(result.failures)} failed", flush=True)

    result = sweep(kind, options.first, options.seeds, options.processes, progress)
    report(kind, result, time.monotonic() - begin_s)
    missed = result.missed(kind) if result.seeds >= SEEDS_FOR_ALL_EVENTS else []
    if missed:
        print(f"reached too seldom: {', '.join(missed)}")
    return 1 if result.failures or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
