"""The checker over random histories: clean where nothing went wrong, and one fault by its name."""

from random import Random

import pytest
from history_defects import DEFECTS, Defect, NoSuchThing
from history_world import PIPELINE, random_history
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from depth import examples
from penstock.testing.history import Ending, check

SEEDS = st.integers(min_value=0, max_value=2**32)


@given(SEEDS)
@settings(max_examples=examples(40, few=15))
def test_a_history_without_fault_is_clean(seed: int) -> None:
    check(random_history(seed), pipelines=[PIPELINE]).require_clean()


@given(SEEDS)
@settings(max_examples=10)
def test_a_history_without_fault_rests_on_something(seed: int) -> None:
    report = check(random_history(seed), pipelines=[PIPELINE])
    assert report.seen > 50
    assert report.unread == 0
    assert report.endings[Ending.COMMITTED] > 0


@pytest.mark.parametrize("defect", DEFECTS, ids=[each.breaks.__name__ for each in DEFECTS])
@given(seed=SEEDS)
@settings(max_examples=10)
def test_one_fault_is_found_and_called_by_its_name(defect: Defect, seed: int) -> None:
    try:
        history = defect.breaks(random_history(seed), Random(seed))
    except NoSuchThing:
        assume(False)
    report = check(history, pipelines=[PIPELINE])
    kinds = {type(each) for each in report.anomalies}
    assert defect.anomaly in kinds
    assert kinds <= {defect.anomaly, *defect.consequences}, report.text
