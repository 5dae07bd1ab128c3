"""Compiles and caches all kernels of this room, before a job waits for them."""

import time
from dataclasses import dataclass

from penstock.bulk.implementation import Implementation, chosen_implementation


@dataclass(frozen=True, slots=True)
class WarmupReport:
    """The result of a warm-up. `cache` is the directory of compiled code, or None; `compiled` names
    the newly compiled kernels."""

    implementation: Implementation
    seconds: float
    cache: str | None
    compiled: tuple[str, ...]


def warm_up() -> WarmupReport:
    """Fill the cache, so that the first decoder and encoder of later processes start fast. Without
    numba there is nothing to do."""
    started = time.perf_counter()
    implementation = chosen_implementation()
    if implementation is Implementation.PLAIN:
        return WarmupReport(implementation, time.perf_counter() - started, None, ())
    from penstock.bulk.compiler import cache_directory, came_from_cache
    from penstock.bulk.decode_compiled import decode_rows
    from penstock.bulk.encode_compiled import encode_rows

    kernels = {"decode_rows": decode_rows, "encode_rows": encode_rows}
    compiled = tuple(name for name, kernel in kernels.items() if not came_from_cache(kernel))
    return WarmupReport(implementation, time.perf_counter() - started, cache_directory(), compiled)
