"""Facts from the operating system: the number of cores, and the time."""

import os
import time


def cores_here() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now_ms() -> int:
    """Return milliseconds since 1970, as in records and transactions."""
    return time.time_ns() // 1_000_000
