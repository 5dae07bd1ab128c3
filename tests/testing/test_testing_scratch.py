"""Temporary directories of clusters."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from penstock.testing.scratch import PREFIX, Scratch

KILLED = """
import os, signal
from penstock.testing import Cluster
Cluster(memory=False).start()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_cluster(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob(f"{PREFIX}*")
    Scratch(tmp_path).remove()
    assert not left.exists()


def test_what_somebody_holds_stays(tmp_path: Path) -> None:
    first = Scratch(tmp_path)
    second = Scratch(tmp_path)
    assert first.path.exists()
    first.remove()
    second.remove()


def test_a_directory_of_somebody_else_stays(tmp_path: Path) -> None:
    stranger = tmp_path / f"{PREFIX}mine"
    stranger.mkdir()
    Scratch(tmp_path).remove()
    assert stranger.exists()


def test_a_closed_cluster_leaves_no_directory(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    program = "from penstock.testing import Cluster\nwith Cluster(memory=False): pass"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
