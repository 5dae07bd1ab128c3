"""Groups, offsets and transactions under random clients and random deaths of their node.

PENSTOCK_SIM_RUNS says how many of each kind.
"""

import os

import pytest
from delivery_life import DeliveryLife

RUNS = int(os.environ.get("PENSTOCK_SIM_RUNS", "15"))
FIRST_SEED = int(os.environ.get("PENSTOCK_SIM_SEED", "1"))
SEEDS = range(FIRST_SEED, FIRST_SEED + RUNS)


def live_and_judge(seed: int, durability: str, *, power: bool) -> str:
    """Run one simulation; its trace. A failure names the seed that repeats it."""
    life = DeliveryLife(seed, durability, power=power)
    try:
        life.run()
    except BaseException as problem:
        problem.add_note(f"seed {seed}, log.durability={durability}, power loss: {power}")
        problem.add_note(f"again: PENSTOCK_SIM_SEED={seed} PENSTOCK_SIM_RUNS=1 pytest {__file__}")
        raise
    return life.simulation.trace


@pytest.mark.parametrize("seed", SEEDS)
def test_deliveries_survive_every_loss_of_power_once_they_are_synced(seed: int) -> None:
    live_and_judge(seed, "fsync", power=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_deliveries_survive_a_killed_process_from_the_page_cache(seed: int) -> None:
    live_and_judge(seed, "page-cache", power=False)
