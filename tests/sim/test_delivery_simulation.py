"""Groups, offsets and transactions under random clients and random deaths of their node.

PENSTOCK_SIM_RUNS says how many of each kind.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from delivery_life import DeliveryLife

from depth import seeds
from penstock.testing.history import Ending
from penstock.testing.sim.world import repeatable

SEEDS = seeds(15, few=3)
TESTS = Path(__file__).parents[1]


def live_and_judge(seed: int, durability: str, *, power: bool) -> DeliveryLife:
    """Run one simulation to its end. A failure names the seed that repeats it."""
    life = DeliveryLife(seed, durability, power=power)
    about = f"seed {seed}, log.durability={durability}, power loss: {power}"
    with repeatable(seed, __file__, lambda: about):
        life.run()
    return life


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_delivered_and_synced_survives_every_loss_of_power(seed: int) -> None:
    live_and_judge(seed, "fsync", power=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_process_takes_back_nothing_that_was_delivered(seed: int) -> None:
    live_and_judge(seed, "page-cache", power=False)


def test_the_simulations_do_what_they_are_about() -> None:
    """Commits, aborts, lost answers, zombies, full disks: a quiet life proves nothing."""
    endings: Counter[Ending] = Counter()
    refused = deaths = full_disks = 0
    for seed in range(103, 109):
        life = live_and_judge(seed, "fsync", power=True)
        endings.update(life.report.endings)
        refused += life.shared.courier.requests.rejected
        deaths += life.deaths
        full_disks += life.full_disks
    assert endings[Ending.COMMITTED] > 30
    assert endings[Ending.ABORTED] > 10
    assert endings[Ending.UNKNOWN] > 0
    assert refused > 0, "no zombie came"
    assert deaths >= 6
    assert full_disks > 0


def test_a_seed_gives_the_same_trace_under_another_hash_seed() -> None:
    kinds = (("fsync", True), ("page-cache", False))
    here = [live_and_judge(1, kind, power=power).simulation.trace for kind, power in kinds]
    script = (
        "from test_delivery_simulation import live_and_judge\n"
        f"for kind, power in {kinds}:\n"
        "    print(live_and_judge(1, kind, power=power).simulation.trace)\n"
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
