"""How deep the suite looks: `make test` samples the long walks, `make test-all` walks them whole.

PENSTOCK_DEPTH=all takes every case. PENSTOCK_SIM_RUNS sets how many seeds each sweep tries and
PENSTOCK_SIM_SEED the first of them. A sample is the same in each run: chance has no part in it.
A test marked `deep` runs in `make test-all` only. docs/testing.md has the table.
"""

import os
from collections.abc import Collection, Sequence
from typing import TypeVar

Case = TypeVar("Case")

WHOLE = os.environ.get("PENSTOCK_DEPTH") == "all"


def seeds(whole: int, few: int, first: int = 1) -> range:
    """Return the seeds of a sweep: `whole` of them in `make test-all`, the first `few` else."""
    count = int(os.environ.get("PENSTOCK_SIM_RUNS", whole if WHOLE else few))
    begin = int(os.environ.get("PENSTOCK_SIM_SEED", first))
    return range(begin, begin + count)


def sample(cases: Sequence[Case], every: int, always: Collection[Case] = ()) -> list[Case]:
    """Return each n-th case, the first, the last, and those that are known to be dangerous."""
    assert set(always) <= set(cases), "a dangerous case is one of the cases"
    if WHOLE or "PENSTOCK_SIM_RUNS" in os.environ:
        return list(cases)
    last = len(cases) - 1
    return [
        case
        for place, case in enumerate(cases)
        if place % every == 0 or place == last or case in always
    ]
