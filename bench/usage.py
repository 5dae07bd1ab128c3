"""What the kernel knows: a server's CPU time and memory, the page cache, this machine."""

import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.servers import KAFKA_VERSION, ROOT

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident and proportional set size, in MB (10^6 bytes)."""

    rss_mb: float
    pss_mb: float


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time used so far by these processes."""
    ticks = 0
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        fields = stat.rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


def memory(pids: Iterable[int]) -> Memory:
    """Summed over a server's processes."""
    kilobytes = {"Rss:": 0, "Pss:": 0}
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, *rest = line.split()
            if name in kilobytes:
                kilobytes[name] += int(rest[0])
    return Memory(kilobytes["Rss:"] * 1024 / 1e6, kilobytes["Pss:"] * 1024 / 1e6)


def evict(files: Iterable[Path]) -> None:
    """Drops files from the page cache; what is still dirty is written first."""
    for file in files:
        try:
            descriptor = os.open(file, os.O_RDONLY)
        except OSError:
            continue
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False, cwd=ROOT
        )
    except OSError:
        return "unknown"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0].strip() if lines and not done.returncode else "unknown"


def short_commit() -> str:
    return _first_line("git", "rev-parse", "--short", "HEAD").replace("unknown", "uncommitted")


def machine_facts() -> dict[str, str]:
    """What a reader needs to judge figures: no names, no paths."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in info if line.startswith("model name")]
    memory_line = Path("/proc/meminfo").read_text().splitlines()[0].split()
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory_gb": f"{int(memory_line[1]) / 1e6:.0f}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": _first_line("java", "--version"),
        "kafka": KAFKA_VERSION,
        "commit": short_commit(),
    }
