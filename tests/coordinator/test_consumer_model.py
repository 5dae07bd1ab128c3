"""Random lives of a consumer group. PENSTOCK_SIM_RUNS says how many."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from consumer_model import Model

from depth import seeds
from penstock.testing.sim.world import repeatable

SEEDS = seeds(300, few=25)
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_partition_has_two_owners_and_every_group_comes_to_rest(seed: int) -> None:
    model = Model(seed)
    with repeatable(seed, __file__, lambda: "\n".join(model.trace[-30:])):
        model.run()


def written(seeds: range) -> list[str]:
    """What is in the logs of such lives, as numbers to compare."""
    digests = []
    for seed in seeds:
        model = Model(seed)
        model.run()
        digests.append(sha256(b"".join(model.story.log)).hexdigest())
    return digests


def test_a_seed_writes_the_same_log_under_another_hash_seed() -> None:
    script = "from test_consumer_model import written\nprint(*written(range(1, 6)))"
    there = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert there.stdout.split() == written(range(1, 6))
