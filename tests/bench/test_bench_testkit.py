"""The rows about the test kit: each kind of cluster that they start gives an answer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.testkit import KINDS, Started

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_of_each_kind_is_started_twice(kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.testkit", kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    started = Started(**json.loads(ran.stdout))
    assert started.first_ms > 0
    assert started.again_ms > 0
