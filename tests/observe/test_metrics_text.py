"""The two text formats, read by Prometheus' own parsers."""

from collections.abc import Callable, Iterable
from math import inf, isnan, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text

from penstock.observe.metric import Metric, MetricKind, Sample, check_table, single
from penstock.observe.text import (
    SAMPLES_PER_PIECE,
    escape_help,
    number_text,
    page,
    pieces,
    wants_openmetrics,
)
from penstock.observe.times import Distribution, Times

FAMILIES: dict[bool, Callable[[str], Iterable[Any]]] = {False: read_text, True: read_openmetrics}


def row(
    samples: Iterable[Sample],
    kind: MetricKind = MetricKind.GAUGE,
    labels: tuple[str, ...] = ("topic",),
) -> Metric[None]:
    name = "a_total" if kind is MetricKind.COUNTER else "a_bytes"
    return Metric(name, kind, "What it means.", lambda _: samples, labels, "bytes")


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1),
            st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False)),
        ),
        max_size=5,
        unique_by=lambda pair: pair[0],
    ),
    st.booleans(),
)
def test_values_and_labels_come_back_as_they_were(
    samples: list[tuple[str, float]], openmetrics: bool
) -> None:
    text = page(
        [row([((label,), value) for label, value in samples])], None, openmetrics=openmetrics
    )
    read = [
        (sample.labels["topic"], sample.value)
        for family in FAMILIES[openmetrics](text)
        for sample in family.samples
    ]
    assert read == [(label, float(value)) for label, value in samples]


@pytest.mark.parametrize("openmetrics", [False, True])
def test_quotes_backslashes_and_line_ends_in_labels_are_escaped(openmetrics: bool) -> None:
    hard = 'a"b\\c\nd'
    text = page([row([((hard,), 1)])], None, openmetrics=openmetrics)
    (family,) = FAMILIES[openmetrics](text)
    assert family.samples[0].labels == {"topic": hard}


def test_a_label_without_a_value_is_left_out() -> None:
    assert "a_bytes 3\n" in page([row([((), 3)])], None)
    assert 'a_bytes{topic="t"} 4\n' in page([row([(("t",), 4)])], None)


def test_help_texts_keep_to_their_line() -> None:
    assert escape_help("one\ntwo\\") == "one\\ntwo\\\\"
    assert escape_help('say "x"', openmetrics=True) == 'say \\"x\\"'


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), (True, "1"), (0.5, "0.5"), (inf, "+Inf"), (-inf, "-Inf"), (nan, "NaN")],
)
def test_numbers_are_written_as_prometheus_reads_them(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_counters_family_has_no_total_in_openmetrics() -> None:
    counter = row([((), 7)], MetricKind.COUNTER)
    assert page([counter], None).startswith(
        "# HELP a_total What it means.\n# TYPE a_total counter\n"
    )
    text = page([counter], None, openmetrics=True)
    assert "# TYPE a counter\n" in text
    assert "\na_total 7\n" in text
    assert text.endswith("\n# EOF\n")


def test_openmetrics_tells_the_unit_that_the_name_ends_with() -> None:
    assert "# UNIT a_bytes bytes\n" in page([row([((), 1)])], None, openmetrics=True)
    assert "# UNIT" not in page([row([((), 1)])], None)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_histogram_has_buckets_that_add_up(openmetrics: bool) -> None:
    times = Times()
    for duration_ms in (0.05, 0.3, 7.0, 90_000.0):
        times.note(duration_ms)
    histogram: Metric[None] = Metric(
        "a_seconds", MetricKind.HISTOGRAM, "It.", single(lambda _: times.histogram_seconds()), ()
    )
    (family,) = FAMILIES[openmetrics](page([histogram], None, openmetrics=openmetrics))
    found = {sample.labels.get("le", sample.name): sample.value for sample in family.samples}
    assert found["0.0001"] == 1
    assert found["0.0005"] == 2
    assert found["0.01"] == 3
    assert found["+Inf"] == found["a_seconds_count"] == 4
    assert found["a_seconds_sum"] == pytest.approx(90.00735)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_a_summary_has_quantiles_a_sum_and_a_count(openmetrics: bool) -> None:
    value = Distribution(2, 3.0, ((0.5, 1.0), (0.99, nan)))
    summary: Metric[None] = Metric(
        "a_ms", MetricKind.SUMMARY, "It.", lambda _: [(("t",), value)], ("topic",)
    )
    (family,) = FAMILIES[openmetrics](page([summary], None, openmetrics=openmetrics))
    quantiles = [each for each in family.samples if "quantile" in each.labels]
    assert quantiles[0].value == 1.0
    assert isnan(quantiles[1].value)
    assert {each.name: each.value for each in family.samples if each not in quantiles} == {
        "a_ms_sum": 3.0,
        "a_ms_count": 2.0,
    }


def test_a_family_without_samples_is_left_out() -> None:
    assert page([row([])], None) == ""


def test_a_page_comes_in_pieces_of_few_samples() -> None:
    samples: list[Sample] = [((str(number),), number) for number in range(3 * SAMPLES_PER_PIECE)]
    made = list(pieces([row(samples)], None))
    assert len(made) == 3
    assert max(piece.count("\n") for piece in made) <= SAMPLES_PER_PIECE + 2
    assert "".join(made) == page([row(samples)], None)


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text; version=1.0.0", True),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3", True),
        ("text/plain;q=0.9,application/openmetrics-text;q=0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
        ("APPLICATION/OPENMETRICS-TEXT", True),
    ],
)
def test_openmetrics_is_for_those_who_prefer_it(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


def _wrong(change: Callable[[Metric[None]], Metric[None]]) -> list[Metric[None]]:
    return [change(row([], MetricKind.COUNTER))]


@pytest.mark.parametrize(
    "rows",
    [
        _wrong(lambda it: it._replace(name="a-b_total")),
        _wrong(lambda it: it._replace(name="a")),
        _wrong(lambda it: it._replace(kind=MetricKind.GAUGE)),
        _wrong(lambda it: it._replace(labels=("0",))),
        _wrong(lambda it: it._replace(about="no full stop")),
        [row([]), row([])],
    ],
    ids=["name", "no total", "total of a gauge", "label", "help", "twice"],
)
def test_a_table_with_a_mistake_is_refused(rows: list[Metric[None]]) -> None:
    with pytest.raises(AssertionError):
        check_table(rows)
