"""Compaction under crashes: the newest of each key is there, whatever happens when.

PENSTOCK_SIM_RUNS sets how many seeds are tried. A failure names its seed.
"""

from compaction_run import Life

from depth import seeds
from penstock.testing.sim.world import repeatable

SEEDS = seeds(150, few=30, first=0)


def lived(seed: int) -> Life:
    life = Life(seed)
    for _ in range(3):
        life.live(life.dice.randrange(10, 80))
        life.crash()
    life.live(20)
    life.finish_cleaning()
    life.restart()
    return life


def test_after_any_crash_a_compacted_log_holds_the_newest_of_each_key() -> None:
    cleanings = in_swap = 0
    for seed in SEEDS:
        with repeatable(seed, __file__):
            life = lived(seed)
        cleanings += life.cleanings
        in_swap += life.crashes_in_swap
    if len(SEEDS) >= 30:  # else chance may have left them out
        assert cleanings > len(SEEDS) / 2, "most lives are cleaned"
        assert in_swap > len(SEEDS) / 20, "some crashes come in the middle of a swap"


def test_the_same_seed_gives_the_same_files_after_cleanings_and_crashes() -> None:
    assert lived(11).disk.files() == lived(11).disk.files()
