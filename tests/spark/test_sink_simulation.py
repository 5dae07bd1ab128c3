"""The exactly-once sink under random deaths, copies, old drivers and a bad network.

PENSTOCK_SIM_RUNS says how many lives, PENSTOCK_SIM_SEED where to begin.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sink_mutants import MUTANTS
from sink_spark import Protocols
from sink_world import Climate, Violation, Weather, World, live

from depth import seeds
from penstock.testing.sim.world import repeatable

SEEDS = seeds(240, few=40)
TESTS = Path(__file__).parents[1]
# One test case runs so many lives: a case of its own for each would cost more than the life.
LIVES_PER_CASE = 20
MUTANT_LIVES_MAX = 400

WEATHERS = (
    Weather(),
    Weather(restore=0.3),
    Weather(delete=0.3),
    Weather(copy_checkpoint=0.02),
    Weather(clock_jump=0.08),
)


def climate_of(seed: int) -> Climate:
    return Climate(
        end_version=4 + seed % 2,
        two_phase_commit=seed // 2 % 2 == 0,
        by_digest=seed // 4 % 2 == 0,
        writes=2 if seed % 7 == 0 else 1,
        weather=WEATHERS[seed % len(WEATHERS)],
    )


def live_and_judge(seed: int) -> World:
    with repeatable(seed, __file__):
        return live(seed, climate_of(seed))


def live_some(count: int, climate: Climate, protocols: Protocols | None = None) -> None:
    for seed in range(1, count + 1):
        live(seed, climate, protocols)


@pytest.mark.parametrize("first", SEEDS[::LIVES_PER_CASE])
def test_every_row_is_there_once_or_the_query_has_said_why_it_stopped(first: int) -> None:
    for seed in range(first, min(first + LIVES_PER_CASE, SEEDS.stop)):
        live_and_judge(seed)


def test_the_simulations_do_what_they_are_about() -> None:
    """A quiet life proves nothing."""
    seen: Counter[str] = Counter()
    for seed in range(10_001, 10_101):
        seen.update(live_and_judge(seed).seen)
    for what in (
        "driver killed",
        "task killed",
        "second driver",
        "late request refused",
        "restored checkpoint",
        "deleted checkpoint",
        "copied checkpoint",
        "query over: DriverReplaced",
        "query over: CheckpointWentBack",
        "query over: NewCheckpoint",
        "query over: TransactionsTooOld",
        "query over: RowsLost",
    ):
        assert seen[what] >= 1, f"{what}: {seen}"


def test_an_at_least_once_write_of_the_same_input_shows_duplicates() -> None:
    """So the judge can fail."""
    with pytest.raises(Violation, match="more than once"):
        live_some(40, Climate(transactional=False))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_protocol_without_one_of_its_rules_is_found_out(name: str) -> None:
    mutant = MUTANTS[name]
    with pytest.raises(Violation):
        live_some(MUTANT_LIVES_MAX, mutant.climate, mutant.protocols)


def test_each_climate_of_the_mutants_is_harmless_with_all_rules_on() -> None:
    for climate in dict.fromkeys(mutant.climate for mutant in MUTANTS.values()):
        live_some(10, climate)


def test_a_seed_gives_the_same_trace_under_another_hash_seed() -> None:
    here = [str(live_and_judge(seed).trace) for seed in (1, 2)]
    script = (
        "from test_sink_simulation import live_and_judge\n"
        "for seed in (1, 2):\n"
        "    print(live_and_judge(seed).trace)\n"
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
    assert there.stdout.splitlines() == here
