"""What loading libraries took is given back, and what was loaded goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.bulk import unused_pages

SMAPS = Path("/proc/self/smaps")
SCRIPT = """
import json, re
from penstock.bulk.unused_pages import release_unused_pages
from penstock.bulk.compiler import numba
from penstock.log.compaction.kernels import scan_batches
from penstock.log.compaction.compiled import CompiledEngine
from penstock.log.compaction.order import Segment
from penstock.wire.batch import Record, build_batch

def resident():
    return int(re.search(r"RssFile:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

def scan():
    batch = build_batch([Record(0, 1, b"k", b"v")])
    return CompiledEngine().scan(batch, Segment(0, 1, len(batch), 1, False), -1).used == len(batch)

loaded = resident()
released = release_unused_pages()
left = resident()
again = release_unused_pages()
scanned = scan()
compiled = int(numba.njit(lambda x: x + 1)(41))
print(json.dumps([loaded, left, released, again, scanned, compiled]))
"""


@pytest.mark.skipif(not SMAPS.exists(), reason="this system does not tell of its mappings")
def test_the_pages_of_libraries_go_and_come_back_when_they_are_needed() -> None:
    pytest.importorskip("numba")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    loaded, left, released, again, scanned, compiled = json.loads(ran.stdout)
    assert left < loaded - 30
    assert released == again > 0
    assert (scanned, compiled) == (True, 42)


def test_a_system_that_does_not_tell_of_its_mappings_keeps_its_pages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(unused_pages, "_SMAPS", str(tmp_path / "missing"))
    assert unused_pages.release_unused_pages() == 0
