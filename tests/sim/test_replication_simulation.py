"""The simulated replication: sweeps over seeds, equal traces, deliberate bugs that are caught."""

import os
import subprocess
import sys

import pytest
from replication_mutants import MUTANTS, ReplicationMutant

from depth import seeds
from penstock.testing.sim.__main__ import main
from penstock.testing.sim.kinds import REPLICATION
from penstock.testing.sim.replication.simulation import simulate_replication
from penstock.testing.sim.sweep import run_seeds

SEEDS_FOR_ALL_EVENTS = 1000
FEW_SEEDS = 150

TRACES = """
from penstock.testing.sim.replication.simulation import simulate_replication
print([simulate_replication(seed).trace for seed in (3, 16, 77)])
"""


def test_seeds_of_replication_keep_every_invariant_and_end_with_whole_sets() -> None:
    swept = seeds(whole=3000, few=150)
    result = run_seeds(REPLICATION, swept)
    assert result.failures == []
    if len(swept) >= SEEDS_FOR_ALL_EVENTS:
        assert result.missed(REPLICATION) == []


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
    assert str([simulate_replication(seed).trace for seed in (3, 16, 77)]) in traces.pop()


def first_failure(mutant: ReplicationMutant) -> int | None:
    """Return the first seed that meets a bug."""
    for seed in range(1, mutant.seeds + 1):
        if run_seeds(REPLICATION, range(seed, seed + 1)).failures:
            return seed
    return None


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(each, marks=pytest.mark.deep if each.seeds > FEW_SEEDS else (), id=each.name)
        for each in MUTANTS
    ],
)
def test_a_sweep_meets_a_deliberate_bug(
    mutant: ReplicationMutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.switch_on(monkeypatch)
    assert first_failure(mutant) is not None


def test_the_story_of_a_seed_has_a_line_per_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replication", "--seeds", "1", "--first", "3", "--story"]) == 0
    assert "append 0 bytes" in capsys.readouterr().out
