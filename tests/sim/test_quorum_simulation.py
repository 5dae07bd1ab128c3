"""The simulated quorum: sweeps over seeds, equal traces, and deliberate bugs that are caught."""

import os
import subprocess
import sys

import pytest
from quorum_mutants import MUTANTS, Mutant

from depth import seeds
from penstock.testing.sim.__main__ import main
from penstock.testing.sim.kinds import QUORUM
from penstock.testing.sim.quorum.simulation import simulate
from penstock.testing.sim.sweep import SweepResult, run_seeds

# Seeds that broke a rule once.
FIXED = (77, 1307, 1629, 3418)
SEEDS_FOR_ALL_EVENTS = 100
FEW_SEEDS = 50

TRACES = """
from penstock.testing.sim.quorum.simulation import simulate
print([simulate(seed).trace for seed in (3, 16, 77)])
"""


def test_seeds_of_the_quorum_keep_every_invariant_and_agree_in_the_end() -> None:
    swept = seeds(whole=3000, few=150)
    result = run_seeds(QUORUM, swept)
    assert result.failures == []
    if len(swept) >= SEEDS_FOR_ALL_EVENTS:
        assert result.missed(QUORUM) == []


def test_many_events_of_one_seed_count_as_one_seed_that_reached_them() -> None:
    result = SweepResult(seeds=1000)
    for name in QUORUM.reached:
        result.counters[name] = result.reached[name] = 10
    result.reached["kills"] = 9
    assert result.missed(QUORUM) == ["kills"]


@pytest.mark.parametrize("seed", FIXED)
def test_a_seed_that_failed_once_passes(seed: int) -> None:
    simulate(seed)


def test_equal_seeds_give_equal_traces_under_any_hash_seed() -> None:
    traces = {
        subprocess.run(
            [sys.executable, "-c", TRACES],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(traces) == 1
    assert str([simulate(seed).trace for seed in (3, 16, 77)]) in traces.pop()


def first_failure(mutant: Mutant) -> int | None:
    """Return the first seed that meets a bug."""
    for seed in range(1, mutant.seeds + 1):
        if run_seeds(QUORUM, range(seed, seed + 1)).failures:
            return seed
    return None


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, marks=pytest.mark.deep if each.seeds > FEW_SEEDS else (), id=each.name)
        for each in MUTANTS
    ],
)
def test_a_sweep_meets_a_deliberate_bug(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.switch_on(monkeypatch)
    assert first_failure(mutant) is not None


def test_the_runner_prints_merged_counters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quorum", "--seeds", "4", "--first", "5", "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    assert "4 seeds, 0 failed" in printed
    assert "elections" in printed


def test_the_runner_prints_how_to_repeat_a_failed_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS[0].switch_on(monkeypatch)
    assert main(["quorum", "--seeds", "50", "--workers", "1"]) == 1
    assert "repeat it: python -m penstock.testing.sim quorum" in capsys.readouterr().out


def test_the_story_of_a_seed_has_a_line_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quorum", "--seeds", "1", "--first", "3", "--story"]) == 0
    assert "LeadershipGained" in capsys.readouterr().out
