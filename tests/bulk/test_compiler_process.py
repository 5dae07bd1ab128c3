"""Kernels are compiled by another process, so that whoever loads them has not compiled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
from penstock.bulk.compiler import INT, compiled

@compiled(INT)
def more(number: int) -> int:
    return number + 1
"""
SCRIPT = """
import json
from penstock.bulk.compiler_process import fill_cache

filled = fill_cache("apart_kernels")
again = fill_cache("apart_kernels")

from penstock.bulk.compiler import came_from_cache
import apart_kernels

print(json.dumps([filled, again, came_from_cache(apart_kernels.more), apart_kernels.more(41)]))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pytest.importorskip("numba")
    (tmp_path / "apart_kernels.py").write_text(SOURCE)
    return tmp_path


def ran(
    place: Path, cache: str = "cache", script: str = SCRIPT, directory: Path | None = None
) -> list[object]:
    surroundings = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(place / cache),
        "PYTHONPATH": os.pathsep.join((str(place), *sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=directory,
        env=surroundings,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: list[object] = json.loads(done.stdout)
    return found


def test_kernels_are_compiled_once_and_by_another_process(place: Path) -> None:
    assert ran(place) == [True, False, True, 42]
    assert ran(place) == [False, False, True, 42]


@pytest.mark.deep
def test_kernels_that_have_changed_are_compiled_again(place: Path) -> None:
    ran(place)
    (place / "apart_kernels.py").write_text(SOURCE.replace("+ 1", "+ 2"))
    assert ran(place) == [True, False, True, 43]


def test_the_other_process_imports_nothing_from_the_current_directory_unless_we_do(
    place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trapped = tmp_path_factory.mktemp("trapped")
    (trapped / "json.py").write_text("open('taken', 'w').close()\n")
    assert ran(place, directory=trapped) == [True, False, True, 42]
    assert not (trapped / "taken").exists()


def test_where_nothing_can_be_kept_a_module_compiles_itself(place: Path) -> None:
    (place / "cache").write_text("no directory")
    filled, again, from_cache, result = ran(place)
    assert (filled, again, from_cache, result) == (False, False, False, 42)


@pytest.mark.deep
def test_a_module_that_cannot_be_compiled_says_so_when_it_is_imported(place: Path) -> None:
    (place / "apart_kernels.py").write_text("raise ValueError('broken')")
    script = SCRIPT.replace("import apart_kernels\n", "apart_kernels = None\n").replace(
        "came_from_cache(apart_kernels.more), apart_kernels.more(41)", "0, 0"
    )
    assert ran(place, script=script) == [False, False, 0, 0]


def test_the_other_process_ends_with_this_one(place: Path) -> None:
    (place / "apart_kernels.py").write_text(
        "import threading\nprint('begun', flush=True)\nthreading.Event().wait()\n"
    )
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join((str(place), *sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.bulk.compiler_process", "apart_kernels"],
        env=surroundings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.stdin.close()
    assert process.wait(60) == 1
    process.stdout.close()
