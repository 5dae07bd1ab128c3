"""Power failures by the hundred: what was synced is there, what is there was written.

PENSTOCK_SIM_RUNS sets how many seeds are tried. A failure names its seed; to see it again:
PENSTOCK_SIM_SEED=<seed> PENSTOCK_SIM_RUNS=1 pytest tests/log/test_log_crash.py
"""

import pytest
from log_builder import reopen, split, stored
from log_life import Run, check_derived

from depth import seeds

SEEDS = seeds(2000, few=100, first=0)
SEEDS_PER_CASE = 100


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_CASE])
def test_after_any_crash_the_log_is_a_prefix_that_holds_all_that_was_synced(first: int) -> None:
    for seed in range(first, min(first + SEEDS_PER_CASE, SEEDS.stop)):
        run = Run(seed)
        try:
            for _ in range(3):
                run.live(run.dice.randrange(5, 60))
                run.crash()
            run.live(20)
            run.disk.run_callbacks()
            run.log.close()
            log = reopen(run.disk)
            assert split(stored(log)) == run.written
            check_derived(log, run.written)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_same_seed_gives_the_same_files() -> None:
    def files() -> dict[str, bytes]:
        run = Run(7)
        run.live(60)
        run.crash()
        return run.disk.files()

    assert files() == files()
