"""Compile and cache everything this room compiles, before a job waits for it."""

import time
from dataclasses import dataclass

from penstock.bulk.implementation import Implementation, chosen_implementation


@dataclass(frozen=True, slots=True)
class Report:
    """What a warm-up came to. `cache` is where compiled code is kept (None: it is not kept);
    `compiled` names the kernels that were not there yet."""

    implementation: Implementation
    seconds: float
    cache: str | None
    compiled: tuple[str, ...]


def warm_up() -> Report:
    """Make the first decoder and encoder of every later process start fast. Without numba there
    is nothing to do."""
    started = time.perf_counter()
    implementation = chosen_implementation()
    if implementation is Implementation.PLAIN:
        return Report(implementation, time.perf_counter() - started, None, ())
    from penstock.bulk.compiling import cache_directory, came_from_cache
    from penstock.bulk.decode_compiled import decode_rows
    from penstock.bulk.encode_compiled import encode_rows

    kernels = {"decode_rows": decode_rows, "encode_rows": encode_rows}
    compiled = tuple(name for name, kernel in kernels.items() if not came_from_cache(kernel))
    return Report(implementation, time.perf_counter() - started, cache_directory(), compiled)
