"""Chooses the implementation: compiled, or plain where numba is missing; fills the cache.

PENSTOCK_BULK=plain|numba in the environment decides. Without it numba is used if importable; a
failed import is logged once per process.
"""

import functools
import logging
import os
import time
from dataclasses import dataclass
from enum import Enum

VARIABLE = "PENSTOCK_BULK"

_log = logging.getLogger(__name__)


class WrongChoice(ValueError):
    """The environment names an unknown implementation."""


class Implementation(Enum):
    """The two implementations, which give the same rows."""

    NUMBA = "numba"
    PLAIN = "plain"


def chosen_implementation() -> Implementation:
    """Return the implementation for new decoders and encoders."""
    asked = os.environ.get(VARIABLE, "").strip().lower()
    if asked:
        try:
            return Implementation(asked)
        except ValueError:
            raise WrongChoice(f"{VARIABLE} is {asked!r}; it may be 'plain' or 'numba'") from None
    return Implementation.NUMBA if numba_works() else Implementation.PLAIN


@functools.cache
def numba_works() -> bool:
    try:
        import numba  # noqa: F401
    except Exception as error:
        # Not only ImportError: a numba that does not match this numpy raises other errors.
        _log.warning(
            "numba cannot be used (%s): records are unpacked with numpy and pyarrow and packed in"
            " plain Python, many times slower. Install numba, or set %s=plain to silence this.",
            error,
            VARIABLE,
        )
        return False
    return True


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
