"""A query on Spark whose workers and whose node are killed: a small part of what `make chaos` does.

PENSTOCK_CHAOS_SEED repeats the choices of a run.
"""

import os
from pathlib import Path

import pytest

from chaos.killing import WITHOUT_DRIVERS
from chaos.run import Orders, Run

SEED = int(os.environ.get("PENSTOCK_CHAOS_SEED", "1"))
KILLS = 4


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_every_row_is_committed_once_while_workers_and_node_are_killed(tmp_path: Path) -> None:
    verdict = Run(Orders(SEED, KILLS, victims=WITHOUT_DRIVERS), tmp_path).go()
    assert verdict.problems == [], (tmp_path / "kills.txt").read_text()
    assert len(verdict.kills) >= KILLS
    assert any(each.in_flight for each in verdict.kills)
