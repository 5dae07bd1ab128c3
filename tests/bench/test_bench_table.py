"""The arithmetic of a comparison and the table it ends in."""

import json

import pytest

from bench.__main__ import choose
from bench.compare import OURS, THEIRS, Plan, Result
from bench.report import as_json, as_markdown, cells, verdict
from bench.row import Context, Row, Sample, Suite
from bench.rows import ROWS
from bench.stats import Bound, Spread, Target, cost_percent, figure, ratio_of

FACTS = {"cores": "2", "commit": "abc1234"}


def never(_context: Context) -> Sample:
    raise AssertionError("a table measures nothing")


def result_of(
    ours: list[float], theirs: list[float], target: Target | None, suite: Suite = Suite.WARM
) -> Result:
    result = Result(Row("row", "A row", "requests/s", target, never, suite))
    result.samples[OURS] = [Sample(value, 10.0) for value in ours]
    result.samples[THEIRS] = [Sample(value, 40.0) for value in theirs]
    return result


def test_a_spread_is_the_median_and_the_extremes() -> None:
    assert Spread.of([30.0, 10.0, 20.0]) == Spread(20.0, 10.0, 30.0)


def test_no_rounds_have_no_median() -> None:
    with pytest.raises(ValueError, match="no rounds"):
        Spread.of([])


def test_a_ratio_is_ours_over_theirs() -> None:
    assert ratio_of(Spread.of([300.0]), Spread.of([100.0])) == 3.0
    assert ratio_of(Spread.of([300.0]), Spread.of([0.0])) is None


@pytest.mark.parametrize(
    ("bound", "ratio", "met"),
    [
        (Bound.AT_LEAST, 1.3, True),
        (Bound.AT_LEAST, 1.29, False),
        (Bound.AT_MOST, 1.3, True),
        (Bound.AT_MOST, 1.31, False),
    ],
)
def test_a_target_is_met_on_its_own_side(bound: Bound, ratio: float, met: bool) -> None:
    assert Target(bound, 1.3).met_by(ratio) is met


def test_figures_are_short() -> None:
    assert figure(12345.6) == "12,346"
    assert figure(0.12345) == "0.123"


def test_a_row_is_judged_by_its_medians() -> None:
    result = result_of([100.0, 300.0, 200.0], [100.0, 90.0, 110.0], Target(Bound.AT_LEAST, 1.5))
    assert result.ratio == 2.0
    assert verdict(result) == "met"
    assert cells(result)[2:] == ["200 (100-300)", "100 (90-110)", "2.00", "≥ 1.5", "met", "10 / 40"]


def test_a_row_that_failed_once_is_not_called_met() -> None:
    result = result_of([200.0], [100.0], Target(Bound.AT_LEAST, 1.5))
    result.failures.append("kafka: no answer")
    assert verdict(result) == "failed"
    assert "no answer" in as_markdown([result], FACTS, Plan([result.row], 1, 1.0))


def test_a_row_without_a_target_is_only_measured() -> None:
    assert verdict(result_of([1.0], [2.0], None)) == "measured"
    assert verdict(result_of([], [2.0], None)) == "-"


def test_a_target_with_a_unit_is_a_limit_of_penstocks_own_median() -> None:
    limit = Target(Bound.AT_MOST, 1.5, "%")
    alone, beside = result_of([1.0, 1.6, 1.4], [], limit), result_of([1.6], [4.0], limit)
    assert [verdict(alone), verdict(beside)] == ["met", "missed"]
    assert cells(alone)[3:7] == ["-", "-", "≤ 1.5 %", "met"]


def test_durability_shows_its_cost() -> None:
    assert cost_percent(200.0, 180.0) == pytest.approx(10.0)
    result = result_of([180.0], [200.0], Target(Bound.AT_LEAST, 0.9), Suite.DURABILITY)
    assert "costs 10.0 %" in cells(result)[0]


def test_results_survive_json() -> None:
    result = result_of([200.0], [100.0], Target(Bound.AT_LEAST, 1.5))
    read = json.loads(as_json([result], FACTS, Plan([result.row], 1, 1.0)))
    assert read["machine"] == FACTS
    assert read["rows"][0]["samples"][OURS] == [{"value": 200.0, "cpu_s_per_million": 10.0}]


def test_row_names_are_unique_and_can_be_shortened() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in choose(["session"])] == ["session-1", "session-10000"]
    assert [row.name for row in choose(["raw-1x1"])] == ["raw-1x1"]
    assert len(choose([])) == len(ROWS)


def test_an_unknown_row_is_named() -> None:
    with pytest.raises(SystemExit, match="no such row: nonsense"):
        choose(["nonsense"])
