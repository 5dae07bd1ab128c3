"""Statistics of this process from the operating system, read on request."""

import os
import resource
import sys
import time

from penstock.real.descriptors import limit
from penstock.real.loop import Loop
from penstock.real.workers import ThreadWorkers
from penstock.world import ProcessStats

_FILES = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
_PAGE_BYTES = resource.getpagesize()


def process_stats(loop: Loop, workers: ThreadWorkers) -> ProcessStats:
    """Return the statistics; on the loop only, because of its thread's CPU time."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    resident, virtual = _memory(usage)
    return ProcessStats(
        started_ms=_started_ms(),
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        loop_cpu_seconds=time.thread_time(),
        resident_bytes=resident,
        virtual_bytes=virtual,
        open_files=_open_files(),
        files_max=limit(),
        turns=loop.turns,
        late_counts=tuple(loop.late_counts),
        late_ms_total=loop.late_ms_total,
        worker_threads=workers.threads,
        worker_tasks=workers.tasks,
    )


def _open_files() -> int:
    """Count open files; newer kernels give the number as a size, a listing takes milliseconds."""
    return os.stat(_FILES).st_size or len(os.listdir(_FILES))


def resident_bytes() -> int | None:
    """Return the resident bytes now; None if the system tells only the peak."""
    found = _memory_now()
    return None if found is None else found[0]


def _memory(usage: resource.struct_rusage) -> tuple[int, int]:
    unit = 1 if sys.platform == "darwin" else 1024
    return _memory_now() or (usage.ru_maxrss * unit, 0)


def _memory_now() -> tuple[int, int] | None:
    try:
        with open("/proc/self/statm", "rb") as file:
            virtual, resident = file.read().split()[:2]
        return int(resident) * _PAGE_BYTES, int(virtual) * _PAGE_BYTES
    except (OSError, ValueError):
        return None


def _started_ms() -> int:
    """Return the start of the process by the wall clock."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return int((boot + since_boot) * 1000)
    except (OSError, ValueError, IndexError, AttributeError):
        return _IMPORTED_MS


_IMPORTED_MS = time.time_ns() // 1_000_000
