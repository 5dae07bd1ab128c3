"""What this process asks the operating system: how many cores it may use, and the time."""

import os
import time


def cores_here() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now_ms() -> int:
    """Since 1970, as records and transactions count it."""
    return time.time_ns() // 1_000_000
