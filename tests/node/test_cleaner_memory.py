"""The cleaner's process keeps to log.cleaner.dedupe.buffer.size and 64 MB, at its peak."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.cleaner.cleaner_job import CLEAN
from penstock.bulk.implementation import VARIABLE
from penstock.log.compaction.memory import PROCESS_BYTES_MAX
from penstock.log.compaction.order import CleaningReport, Order, Segment
from penstock.real.child_process import RealChildProcesses
from penstock.real.loop import Loop
from penstock.real.workers import ThreadWorkers
from penstock.wire.batch import Record, build_batch

MAP_BYTES = 128 * 1024 * 1024  # log.cleaner.dedupe.buffer.size as it comes
# Keys lie all over the map: some five for each of its pages touch almost all of them.
BATCHES, BATCH_RECORDS = 160, 1_000
# Offsets are far apart, so that the map is made for the millions of keys that there could be.
OFFSETS_PER_BATCH = 60_000
NOW_MS = 1_700_000_000_000
WAIT_MS_MAX = 120_000

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not tell a process's peak"
)


@pytest.fixture
def apart() -> Iterator[RealChildProcesses]:
    loop = Loop()
    workers = ThreadWorkers(loop, threads=2)
    apart = RealChildProcesses(loop, workers)
    yield apart
    apart.close()
    workers.close()


def many_keys(root: Path) -> Order:
    directory = root / "t-0"
    directory.mkdir()
    size = 0
    with open(directory / f"{0:020d}.log", "wb") as file:
        for number in range(BATCHES):
            base = number * OFFSETS_PER_BATCH
            records = [
                Record(base + place, NOW_MS, b"%d-%d" % (number, place), b"v")
                for place in range(BATCH_RECORDS)
            ]
            size += file.write(build_batch(records, base_offset=base))
    end = BATCHES * OFFSETS_PER_BATCH
    return Order(
        directory="t-0",
        segments=(Segment(0, end, size, NOW_MS, False),),
        start_offset=0,
        first_dirty_offset=0,
        upper_offset=end,
        now_ms=NOW_MS,
        delete_retention_ms=0,
        segment_bytes_max=1 << 30,
        index_bytes_max=10 << 20,
        index_interval_bytes=4096,
        message_bytes_max=1 << 20,
        last_offsets={},
        last_epochs={},
        aborted_later=(),
        map_bytes_max=MAP_BYTES,
    )


def clean(apart: RealChildProcesses, root: Path, order: Order) -> CleaningReport:
    ended: list[tuple[CleaningReport | None, BaseException | None]] = []
    apart.run(CLEAN, str(root), (order,), lambda _said: None, lambda *each: ended.append(each))
    late: list[bool] = []
    timer = apart.loop.at(apart.loop.mono_ms() + WAIT_MS_MAX, lambda: late.append(True))
    while not ended and not late:
        apart.loop.turn()
    timer.cancel()
    assert ended, "it did not end in time"
    report, failure = ended[0]
    assert report is not None, failure
    return report


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize("implementation", ["numba", "plain"])
def test_the_peak_of_a_cleaning_that_fills_its_map_is_within_the_promise(
    implementation: str, apart: RealChildProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if implementation == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv(VARIABLE, implementation)
    report = clean(apart, tmp_path, many_keys(tmp_path))
    assert report.records_kept == BATCHES * BATCH_RECORDS
    (pid,) = apart.pids
    assert MAP_BYTES < peak_bytes(pid) <= MAP_BYTES + PROCESS_BYTES_MAX
