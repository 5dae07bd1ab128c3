"""Whole nodes under random clients and random deaths. PENSTOCK_SIM_RUNS says how many per kind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from node_life import NodeLife

from depth import seeds
from penstock.testing.sim.world import repeatable

SEEDS = seeds(25, few=3)
TESTS = Path(__file__).parents[1]


def live_and_judge(seed: int, durability: str, *, power: bool) -> str:
    """Run one simulation; its trace. A failure names the seed that repeats it."""
    life = NodeLife(seed, durability, power=power)
    about = f"seed {seed}, log.durability={durability}, power loss: {power}"
    with repeatable(seed, __file__, lambda: about):
        life.run()
    return life.simulation.trace


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_and_synced_survives_every_loss_of_power(seed: int) -> None:
    live_and_judge(seed, "fsync", power=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_process_loses_nothing_that_is_in_the_page_cache(seed: int) -> None:
    live_and_judge(seed, "page-cache", power=False)


@pytest.mark.parametrize("durability", ["fsync", "page-cache"])
def test_a_seed_gives_the_same_trace_under_another_hash_seed(durability: str) -> None:
    power = durability == "fsync"
    here = [live_and_judge(seed, durability, power=power) for seed in (1, 2)]
    script = (
        "from test_node_simulation import live_and_judge\n"
        f"for seed in (1, 2): print(live_and_judge(seed, {durability!r}, power={power}))\n"
    )
    there = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert there.stdout.split() == here
