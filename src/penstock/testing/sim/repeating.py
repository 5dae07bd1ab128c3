"""A failed run of a simulation tells how it is run again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeatable(seed: int, file: str, about: Callable[[], str] | None = None) -> Iterator[None]:
    """Whatever fails inside names the seed that repeats it; `about` is asked only then."""
    try:
        yield
    except BaseException as problem:
        if about is not None:
            problem.add_note(about())
        problem.add_note(f"again: PENSTOCK_SIM_SEED={seed} PENSTOCK_SIM_RUNS=1 pytest {file}")
        raise
