"""How deep the suite looks: `make test` samples the long walks, `make test-all` walks them whole.

PENSTOCK_DEPTH=all takes every case. PENSTOCK_SIM_RUNS sets how many seeds each sweep tries and
PENSTOCK_SIM_SEED the first of them. A sample is the same in each run: chance has no part in it.
A test marked `deep` runs in `make test-all` only. Of a test marked `each_value` that has several
parameters, `make test` takes each value of each of them once, and `make test-all` all combinations.
docs/testing.md has the table.
"""

import os
from collections.abc import Collection, Sequence
from typing import TypeVar

Case = TypeVar("Case")

WHOLE = os.environ.get("PENSTOCK_DEPTH") == "all"
# A run that sets the number of seeds is about depth, too.
EVERY_CASE = WHOLE or "PENSTOCK_SIM_RUNS" in os.environ


def seeds(whole: int, few: int, first: int = 1) -> range:
    """Return the seeds of a sweep: `whole` of them in `make test-all`, the first `few` else."""
    count = int(os.environ.get("PENSTOCK_SIM_RUNS", whole if WHOLE else few))
    begin = int(os.environ.get("PENSTOCK_SIM_SEED", first))
    return range(begin, begin + count)


def examples(whole: int, few: int) -> int:
    """Return how many examples a property test tries."""
    return whole if WHOLE else few


def sample(cases: Sequence[Case], every: int, always: Collection[Case] = ()) -> list[Case]:
    """Return each n-th case, the first, the last, and those that are known to be dangerous."""
    assert set(always) <= set(cases), "a dangerous case is one of the cases"
    if EVERY_CASE:
        return list(cases)
    last = len(cases) - 1
    return [
        case
        for place, case in enumerate(cases)
        if place % every == 0 or place == last or case in always
    ]


def thinned(cases: Sequence[Sequence[str]]) -> list[int]:
    """Return the places of few cases that hold each value of each parameter at least once.

    A case has a value of each parameter. Cases with the most new values come first, so that the
    product of nine values and three is thinned to nine cases.
    """
    seen: set[tuple[int, str]] = set()
    kept = []
    for wanted in range(max(map(len, cases), default=0), 0, -1):
        for place, case in enumerate(cases):
            new = set(enumerate(case)) - seen
            if len(new) >= wanted:
                seen |= new
                kept.append(place)
    return sorted(kept)
